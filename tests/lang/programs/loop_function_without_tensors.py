"""Hot loops in functions that are given no tensors: returns, nested loops, generators, closures, recursion from the loop."""
import torch


def early(limit):
    acc = torch.zeros(3)
    for i in range(100):
        acc = acc + torch.full((3,), float(i))
        if i == limit:
            return i, acc.sum().item()
    return -1, acc.sum().item()


print([early(n) for n in (2, 5, 30, 99, 200)])


def nested(rows, columns):
    out = []
    for r in range(rows):
        line = torch.zeros(2)
        for c in range(columns):
            line = line * 0.5 + torch.tensor([r, c])
        out.append(line)
    return torch.stack(out).sum().item()


print([nested(3, 20), nested(20, 3), nested(12, 12)])


def closure():
    count = 0
    base = torch.ones(2)

    def bump():
        nonlocal count, base
        count += 1
        base = base + count

    for _ in range(30):
        bump()
        base = base * 0.9
    return count, round(base.sum().item(), 4)


print(closure(), closure())


def produce(n):
    state = torch.ones(2)
    for i in range(n):
        state = state + i
        yield state.sum().item()


def consume():
    total = torch.zeros(())
    for value in produce(30):
        total = total + value
    return total.item()


print(consume(), sum(produce(25)))


def again(depth):
    x = torch.ones(2) * depth
    for i in range(8):
        x = x + 1
        if depth and i == 6:
            x = x + again(depth - 1)
    return x


print(again(4).tolist())


def zipped():
    out = torch.zeros(2)
    names = {"a": 1.0, "b": 2.0, "c": 3.0}
    for (key, value), index, flag in zip(names.items(), range(10), [True, False] * 5):
        out = out + value * index
        if flag:
            out = out - len(key)
    for index, item in enumerate(torch.arange(20.0)):
        out = out + item * index
    while out.sum() < 10000:
        out = out * 1.5
    return [round(v, 3) for v in out.tolist()]


print(zipped())


def unwatched():
    x = torch.ones(1)
    for i in range(20):
        if i == 10:
            i = 100
        x = x + i
    else:
        x = -x
    return x.item(), i


print(unwatched())
