import torch
from support import seq, show


class Stop(Exception):
    pass


def step_once(x, i):
    if i == 3:
        raise Stop(i)
    return x * 2 + i


def model(x, n):
    caught = []
    for i in range(n):
        try:
            x = step_once(x, i)
        except Stop as stop:
            caught.append(stop.args[0])
            continue
        finally:
            x = x - 0.25
    return x, caught


for n in (2, 2, 5, 5, 2, 6):
    show(*model(seq(2), n))
