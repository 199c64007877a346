import torch
from support import seq, show


def model(a, b):
    a.add_(b)
    return a * 2 + b


for step in range(8):
    base = seq(6)
    if step % 4 == 3:
        try:
            model(base[1:5], base[2:6])
        except RuntimeError as error:
            print("overlap", "single memory location" in str(error))
        show(base)
        show(model(base[1:4:2], base[2:5:2]), base)
    else:
        show(model(base[:3], base[3:]), base)
