import torch
from support import seq, show

w = seq(3).requires_grad_()


@torch.no_grad()
def frozen(x):
    return x * w, torch.is_grad_enabled()


@torch.inference_mode()
def inference(x):
    return x * w


def model(x):
    a, flag = frozen(x)
    with torch.enable_grad():
        b = x * w
    with torch.set_grad_enabled(False):
        c = x * w
    return a.requires_grad, b.requires_grad, c.requires_grad, flag, inference(x).is_inference(), a + b + c


for step in range(5):
    show(*model(seq(3, start=step % 2)))
