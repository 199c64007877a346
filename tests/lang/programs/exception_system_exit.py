import sys
import torch
from support import seq, show


def model(x, i):
    y = x.exp()
    if i == 4:
        print("leaving")
        sys.exit(7)
    return y


for i in range(6):
    show(model(seq(2, start=i), i))
