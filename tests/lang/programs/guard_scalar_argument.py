import torch
from support import seq, show


def model(x, scale, power, mode):
    y = x * scale
    if mode == "exp":
        y = y.exp()
    return y ** power


cases = [(2.0, 2, "exp"), (3.0, 2, "exp"), (2.0, 3, "exp"), (2, 2, "exp"), (2.0, 2, "lin"), (0.0, 2, "exp"), (True, 1, "exp"), (float("nan"), 2, "lin"), (-0.0, 2, "lin")]
for turn in range(2):
    for scale, power, mode in cases:
        for step in range(2):
            show(scale, power, mode, model(seq(2, start=step), scale, power, mode))
