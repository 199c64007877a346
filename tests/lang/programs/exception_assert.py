import torch
from support import seq, show, trace


def model(x):
    assert x.dim() == 2, f"wanted 2 dimensions, got {x.dim()}"
    assert x.shape[1] == 3
    return x.sum(1)


for shape in ((2, 3), (2, 3), (2, 3), (3,), (2, 3), (2, 4), (2, 3)):
    try:
        show(model(seq(*shape)))
    except AssertionError:
        print(trace())
