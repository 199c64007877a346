import torch
from support import seq, show

SCALE = 2.0
WEIGHT = seq(3)


def model(x):
    return x * SCALE + WEIGHT


for scale in (2.0, 3.0, 2.0, 5, 2.0):
    SCALE = scale
    for step in range(3):
        show(scale, model(seq(3, start=step)))
old = WEIGHT
for weight in (old * 2, old, old * 3, old):
    WEIGHT = weight
    for step in range(2):
        show(model(seq(3, start=step)))
