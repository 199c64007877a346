import torch
from support import seq, show


def model(x):
    model.calls += 1
    return x * model.scale


model.calls, model.scale = 0, 2.0
for scale in (2.0, 3.0, 2.0):
    model.scale = scale
    for step in range(3):
        show(model(seq(2, start=step)), model.calls)
