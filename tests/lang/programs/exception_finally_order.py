import torch
from support import seq, show


def model(x, mode):
    try:
        try:
            print("body")
            if mode == 1:
                raise KeyError("k")
            if mode == 2:
                return x * 2
            x = x + 1
        finally:
            print("inner finally")
            x = x * 3
    except KeyError:
        print("handler")
        x = x - 1
    finally:
        print("outer finally")
        if mode == 3:
            return x * 100
    return x


for step in range(12):
    show(model(seq(2, start=step % 2), step % 4))
