import torch
from support import seq, show, trace


class Custom(Exception):
    def __init__(self, tensor):
        super().__init__("custom")
        self.tensor = tensor


def inner(x, bad):
    if bad:
        raise Custom(x * 2)
    return x


def model(x, bad):
    try:
        return inner(x + 1, bad)
    except Custom as error:
        error.tensor = error.tensor + 1
        raise


for step in range(6):
    try:
        show(model(seq(2, start=step), step % 2))
    except Custom as error:
        show(error.tensor)
        print(trace())
