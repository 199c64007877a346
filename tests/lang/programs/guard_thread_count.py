import torch
from support import seq, show


def model(x):
    return x.softmax(-1) @ x.T


for step in range(9):
    torch.set_num_threads(1 + (step // 3) % 2)
    show(model(seq(3, 3, start=step % 2)), torch.get_num_threads())
