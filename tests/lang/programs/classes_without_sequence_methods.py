"""Classes whose class is made by C code without slots for numbers and sequences (pybind11's) are compared and looked for."""
import torch


def among(x):
    y = x * 2
    return y + 5 if torch._C.Graph in (int, str, torch.Tag) else y + 1


def equal(x):
    return x + 1 if torch._C.Graph == torch.Tag else x - 1


def placed(x):
    kinds = (int, torch.Tag, torch._C.Graph)
    return x * kinds.index(torch._C.Graph) + kinds.count(torch.Tag)


for function in (among, equal, placed):
    print([function(torch.ones(2)).tolist() for _ in range(4)])
