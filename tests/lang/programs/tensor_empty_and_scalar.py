import torch
from support import seq, show


def model(x):
    return x.sum(), x + torch.tensor(2.0), x * 2, x.reshape(-1), torch.cat([x.reshape(-1), torch.zeros(0)])


for x in (seq(0), seq(0), torch.tensor(1.5), torch.tensor(1.5), seq(0, 3), torch.tensor(1.5), seq(2), seq(0)):
    show(*model(x))
