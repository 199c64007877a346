# What an exception was raised behind: a handler outside of the code that raises it, which one call has and the next has not.
import contextlib

import torch


async def check(x):
    if x.shape[0] > 1:
        raise ValueError("several")


def checked(x):
    try:
        if x.shape[0] > 1:
            raise ValueError("several")
    except ValueError as error:
        kept = error
    return kept, x + 1


def generated(x):
    try:
        yield x + 1
        raise ValueError("generated")
    finally:
        x = x + 2


async def in_finally(x):
    try:
        await check(x)
    finally:
        await check(x)


async def in_except(x):
    try:
        await check(x)
    except ValueError:
        await check(x)


class Closing:
    async def __aenter__(self):
        return self

    async def __aexit__(self, *raised):
        await check(torch.ones(3))


async def in_with(x):
    async with Closing():
        await check(x)


async def on_a_stack(x):
    async with contextlib.AsyncExitStack() as stack:
        stack.push_async_callback(check, x)
        await check(x)


def drive(coroutine):
    try:
        while True:
            coroutine.send(None)
    except StopIteration:
        pass


def chain(error):
    texts = []
    while error is not None:
        texts.append(repr(error))
        error = error.__context__
    return texts


for function in (in_finally, in_except, in_with, on_a_stack):
    for size in (1, 1, 2, 2, 2, 3):
        try:
            drive(function(torch.ones(size)))
            print(function.__name__, size)
        except ValueError as error:
            print(function.__name__, size, chain(error))

for turn in range(8):
    x = torch.ones(2) * turn
    print("plain", chain(checked(x)[0]))
    try:
        raise KeyError(turn)
    except KeyError:
        if turn % 2:
            print("behind", chain(checked(x)[0]))
    try:
        try:
            raise KeyError(turn)
        except KeyError:
            list(generated(x))
    except ValueError as error:
        print("generated", chain(error))
    try:
        list(generated(x))
    except ValueError as error:
        print("generated", chain(error))
