import sys
import torch
from support import seq, show


def down(x, n):
    if n == 0:
        return x
    return down(x + 0.5, n - 1) * 1.0


def endless(x):
    return endless(x + 1) + 1


for depth in (10, 10, 200, 700, 200, 10):
    show(depth, down(seq(2), depth))
for step in range(3):
    try:
        endless(seq(1))
    except RecursionError as error:
        print(str(error).split(" while")[0])
show(down(seq(2), 50))
