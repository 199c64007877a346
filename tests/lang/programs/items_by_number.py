"""Items of lists and tuples at numbers that change: which item it is, what is written to it, and what ends the list."""
import json

import torch


class Layer:
    def __init__(self, number):
        self.count = torch.tensor(number)
        self.weight = torch.full((2,), float(number))
        self.calls = 0
        self.scale = 2

    def step(self, x):
        self.calls += 1
        if self.count > 0:  # a branch on a tensor's value
            self.weight = self.weight + x * self.scale
        return x + self.weight


class Stack:
    def __init__(self, count):
        self.layers = [Layer(i % 3) for i in range(count)]
        self.at = 0

    def steps(self, x):
        for i in range(len(self.layers)):
            x = self.layers[i].step(x)
        return x

    def one(self, x):
        return self.layers[self.at].step(x)

    def last(self, x):
        return self.layers[-1 - self.at].step(x)

    def pair(self, x, i, j):
        first, second = self.layers[i], self.layers[j]
        first.weight = first.weight + 1
        return x + first.weight * 2 + second.weight, first is second

    def beside(self, x, i):
        self.layers[0].calls += 10
        one = self.layers[i]
        one.calls += 1
        return x + one.weight + self.layers[0].calls, one is self.layers[0], one is self.layers[2]

    def replaced(self, x, i):
        old = self.layers[i]
        self.layers[i] = old
        self.layers[1] = self.layers[0]
        return x + self.layers[i].weight, self.layers[i] is self.layers[0]

    def grown(self, x, i):
        self.layers.append(self.layers[i])
        value = x + self.layers[-1].weight + self.layers[i].weight
        self.layers.pop()
        return value


def show(*values):
    print(*(value.tolist() if isinstance(value, torch.Tensor) else value for value in values))


x = torch.ones(2)
stack = Stack(5)
for turn in range(6):
    show(stack.steps(x * turn), [layer.calls for layer in stack.layers])
    stack.at = turn % 4
    show(stack.one(x), stack.last(x))
for i in (0, 1, 2, 3, 4, 1, 3):
    show(*stack.pair(x, i, 4 - i))
    show(*stack.beside(x, i))
    show(stack.grown(x, i))
for i in (0, 2, 1, 3, 2):
    fresh = Stack(4)
    show(*fresh.replaced(x, i))
for i in (3, 4, 5, -1, -5, -6, 2, True, 10**30):
    try:
        show(*stack.pair(x, i, 0))
    except (IndexError, TypeError) as error:
        print(type(error).__name__, error)


def by_table(x, table, i):
    y = x * 2
    json.dumps(i)
    return y + table[i] * x, table[i]


for table in ([1, 2, 3, 4], (1.5, 2.5, float("nan"), 4.0), [x, x + 1, x, None][:3] + [x]):
    for i in (0, 1, 2, 3, 0):
        show(*by_table(x, table, i))


def loops(x, layers):
    total = x * 0
    for i, layer in enumerate(layers):
        if x.sum() > i:
            total = total + layer.weight * layers[i].scale
    for i in range(len(layers)):
        json.dumps(i)
        total = total + layers[i].weight * i + layers[len(layers) - 1 - i].weight
    return total


layers = [Layer(i) for i in range(6)]
for turn in range(4):
    show(loops(x * turn, layers))
    layers[turn].scale = 3
    layers[2], layers[3] = layers[3], layers[2]
show(loops(x, tuple(layers)))


def whole(x, n):
    """A slice that just takes the whole dimension."""
    y = x[:, :n]
    z = x[0, :n] * 1
    y = y + y.reshape(-1).sum()
    return y, z, x[:, :n].is_contiguous(), x[:, :n]._base is x, x[:, : n + 1].stride()


def stores(x, n, v):
    x[:, :n] = v
    x[:, :n] += 1
    return x[:, :n]


for n in (2, 3, 4, 5, 6, 7, 4, 3, 6):
    for grad in (False, True):
        t = torch.arange(12.0).reshape(2, 6).requires_grad_(grad)
        y, z, *rest = whole(t, n)
        show(y, z, rest, y.requires_grad, None if y.grad_fn is None else y.grad_fn.name())
    u = torch.zeros(2, 6)
    v = stores(u, n, float(n))
    v.mul_(2)
    show(u, v, u._version, v._base is u)


def flattened(x, n):
    flat = x[:, :n].reshape(-1)
    flat.add_(1)
    return flat, x


for n in (2, 3, 4, 3, 4, 2):
    show(*flattened(torch.zeros(2, 4), n))


def written_at(buffer, n, i):
    part = buffer[:, : n + 1].clone()
    part[:, n] = part.sum(1) * n
    part[:, n - 1].mul_(2)
    buffer[:, i] = buffer[:, i] + part[:, n // 2]
    return part, buffer[:, n] * 2, buffer[:, i], part[:, n].sum()


# An index that follows from the size, and one that does not, at sizes that come back.
buffer = torch.zeros(2, 8)
for turn in range(6):
    for n in (1, 2, 3, 5, 4):
        show(*written_at(buffer.add_(1) % 7, n, (turn + n) % 8))
