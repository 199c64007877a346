import torch
from support import seq, show, trace


def inner(x, n):
    out = []
    for index, value in enumerate([x, x * 2, x * 3]):
        for name in ("a", "b")[: n % 3]:
            out.append(value + index)
            if n == 4 and name == "b":
                raise ValueError(f"{index} {name}")
    return out


def model(x, n):
    x.mul_(0.5)
    total = x * 0
    try:
        for part in inner(x, n):
            total = total + part
    except ValueError as error:
        print(error)
        return total - 1
    for key in {"p": 1, "q": 2}:
        print(key, end=" ")
    return total


for step in range(12):
    show(model(seq(2, start=step % 2), step % 6))
