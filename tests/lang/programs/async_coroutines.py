import asyncio
import torch
from support import seq, show


async def layer(x, n):
    await asyncio.sleep(0)
    return x * n


async def numbers(n):
    for i in range(n):
        await asyncio.sleep(0)
        yield i


class Scope:
    async def __aenter__(self):
        return 2.0

    async def __aexit__(self, *info):
        await asyncio.sleep(0)


async def model(x):
    async with Scope() as factor:
        x = x * factor
    async for i in numbers(3):
        x = await layer(x, i + 1)
    parts = await asyncio.gather(layer(x, 1), layer(x, 2))
    return parts, [v async for v in numbers(2)]


for step in range(4):
    show(*asyncio.run(model(seq(2, start=step % 2))))
