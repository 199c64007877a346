import torch
from torch import nn
from support import fixed, seq, show

model = fixed(nn.Sequential(nn.Conv2d(2, 3, 3), nn.BatchNorm2d(3), nn.ReLU(), nn.Flatten(), nn.Linear(12, 2))).eval()
first = model[0].weight
second = nn.Parameter(seq(3, 2, 3, 3, start=7))
linear = model[4].weight
x = seq(1, 2, 4, 4)
with torch.no_grad():
    for weight in (first, second, first, second):
        model[0].weight = weight
        for step in range(3):
            show(model(x + step % 2))
    for weight in (nn.Parameter(linear * 2), linear):
        model[4].weight = weight
        for step in range(3):
            show(model(x + step % 2))
    model[4].bias = None
    for step in range(3):
        show(model(x))
