import torch
from support import seq, show


def model(a, b):
    n = torch.nested.nested_tensor([a, b])
    return (n * 2).to_padded_tensor(0.0), [t.sum() for t in n.unbind()]


for step in range(4):
    show(*model(seq(2, 2, start=step % 2), seq(3, 2)))
