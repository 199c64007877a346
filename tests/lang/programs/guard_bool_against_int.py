import torch
from support import seq, show


def model(x, flag):
    return x + flag, flag is True, type(flag).__name__, flag == 1


for flag in (1, 1, 1, True, 1.0, 1, True, False, 0, 0.0, -0.0):
    show(*model(seq(2), flag))
