import torch
from torch import nn
from support import seq, show


def model(x):
    return x * 2 + 1


for x in (seq(2), seq(2), seq(2), 3, 3.5, nn.Parameter(seq(2)), True, seq(2), 3, 2 + 1j, nn.Parameter(seq(2)), seq(2), 4):
    y = model(x)
    show(type(y).__name__, y)
