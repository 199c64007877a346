import torch
from support import seq, show


def leaf(x, n):
    for i in range(n):
        got = yield x * i
        if got:
            print("got", got)
    return x.sum()


def tree(x):
    a = yield from leaf(x, 2)
    b = yield from leaf(x + 1, 1)
    yield from [a, b]
    return a + b


for step in range(5):
    gen = tree(seq(2, start=step % 2))
    out = [next(gen)]
    out.append(gen.send("hello"))
    out.extend(gen)
    show(out)
