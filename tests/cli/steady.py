"""Functions that run as many operators each time, and such as do not; prints how many the program called."""

import sys

import torch

try:
    from dynrun import disable  # all of it is left to CPython
except ImportError:
    def disable(function):
        return function

called = 0
x = torch.randn(4, 4)


def called_operators(count):
    global called
    called += count


def steady():
    y = x
    for _ in range(10):
        y = torch.add(y, x)
    called_operators(10)


def in_turns(turn):
    for _ in range(turn % 3):
        torch.mul(x, x)
    called_operators(turn % 3)


def changed(turn):
    for _ in range(4 if turn < 2000 else 8):
        torch.sub(x, x)
    called_operators(4 if turn < 2000 else 8)


def raises():
    called_operators(3)
    return torch.mm(torch.add(x, x), torch.ones(3, 3))


def in_inference_mode():
    called_operators(5)
    with torch.inference_mode():
        for _ in range(5):
            torch.mul(x, 2.0)


def outer(turn):
    steady()
    changed(turn)
    in_turns(turn)


@disable
def a_turn(turn):
    outer(turn)
    in_inference_mode()
    try:
        raises()
    except RuntimeError:
        pass


for turn in range(4000):
    a_turn(turn)
print(called)
