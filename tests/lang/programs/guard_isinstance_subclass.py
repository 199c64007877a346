import torch
from torch import nn
from support import fixed, seq, show


class Mine(nn.Linear):
    pass


def model(layer, x):
    if isinstance(layer, Mine):
        return layer(x) + 100
    if type(layer) is nn.Linear:
        return layer(x)
    return x


layers = [fixed(nn.Linear(2, 2)), fixed(Mine(2, 2)), nn.Identity()]
with torch.no_grad():
    for step in range(12):
        show(model(layers[(step // 2) % 3], seq(1, 2, start=step % 2)))
