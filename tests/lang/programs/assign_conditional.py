import torch
from support import seq, show, trace


def model(x, flag):
    if flag:
        y = x * 2
    return y + 1


for flag in (True, True, True, False, True, False, True):
    try:
        show(model(seq(2), flag))
    except UnboundLocalError:
        print(trace())
