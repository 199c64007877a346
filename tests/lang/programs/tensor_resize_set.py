import torch
from support import seq, show


def model(x):
    x.resize_(2, 2)
    y = torch.empty(0).set_(x)
    y.fill_(3)
    x.unsqueeze_(0)
    x.t_() if x.dim() < 3 else x.transpose_(0, 1)
    return y, tuple(x.shape)


for step in range(5):
    x = seq(4, start=step % 2)
    show(*model(x), x)
