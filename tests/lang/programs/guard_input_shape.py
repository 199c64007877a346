import torch
from support import seq, show


def model(x):
    return torch.softmax(x, -1) * x.shape[0] + x.mean(0)


for shape in ((2, 3), (2, 4), (2, 3), (5, 3), (1, 3), (2, 3, 2), (2, 3), (0, 3), (1, 1)):
    for step in range(3):
        show(model(seq(*shape, start=step)))
