"""Functions that run as many operators each time, and such as do not; prints how many the program called."""

import asyncio

import torch
import torch.nn.functional as functional

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


def twice():
    functional.layer_norm(x, (4,))
    functional.layer_norm(x, (4,))
    called_operators(2)


@torch.library.custom_op("steady::many", mutates_args=())
def many(a: torch.Tensor) -> torch.Tensor:
    return a + a - a * a + a


def of_its_own():
    many(x)
    called_operators(1)


async def request():
    with torch.inference_mode():
        for _ in range(2):
            torch.mul(x, x)
            called_operators(1)
            await asyncio.sleep(0)


async def requests():
    for _ in range(500):
        await asyncio.gather(*[request() for _ in range(4)])


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
    disable(twice)()
    disable(of_its_own)()
disable(asyncio.run)(requests())
print(called)
