"""Numbers that Python code gives to C code that called it, once or many times, and that C code cannot reach by itself."""
import collections
import functools
import itertools
import math
import operator

import torch

counter = type("Counter", (), {"n": 0})()


class Asked:
    def __len__(self):
        return counter.n % 50

    def __bool__(self):
        return counter.n % 3 == 0

    def __contains__(self, item):
        return counter.n % 4 == item

    def __index__(self):
        return counter.n % 5

    def __int__(self):
        return counter.n % 6

    def __float__(self):
        return float(counter.n % 7)

    def __hash__(self):
        return counter.n % 8

    def __eq__(self, other):
        return counter.n % 9 == 0

    def __repr__(self):
        return f"<{counter.n}>"

    def __format__(self, form):
        return f"<<{counter.n}>>"

    def __iter__(self):
        return iter([counter.n, 1])

    def __getitem__(self, index):
        return counter.n + index

    def __round__(self, digits=None):
        return counter.n * 2

    def __reversed__(self):
        return iter([counter.n, 3])


class Giving:
    def __init__(self, count=2):
        self.k, self.count = 0, count

    def __iter__(self):
        return self

    def __next__(self):
        self.k += 1
        if self.k > self.count:
            raise StopIteration
        return counter.n + self.k


class Pairs(Giving):
    def __next__(self):
        return super().__next__() - counter.n, counter.n


class Indexed:
    def __getitem__(self, index):
        if index > 1:
            raise IndexError
        return counter.n


class Counting(torch.nn.Module):
    """A counter beside layers whose number C code asks Python code for."""
    def __init__(self):
        super().__init__()
        self.layers = torch.nn.ModuleList([torch.nn.Hardtanh(), torch.nn.ReLU()])
        self.steps = 0

    def forward(self, x):
        self.steps += 1
        return self.layers[-1](x) * self.steps + len(self.layers)

    def __len__(self):
        return self.steps

    def __getattr__(self, name):
        return super().__getattr__(name)


def generated():
    yield counter.n
    yield counter.n + 1


asked, module = Asked(), Counting()
NUMBERS = {
    "len": lambda: len(asked), "bool": lambda: 2 if asked else 3, "not": lambda: 2 if not asked else 3, "in": lambda: 2 if 1 in asked else 3, "index": lambda: operator.index(asked),
    "range": lambda: len(range(asked)), "item": lambda: [0, 1, 2, 3, 4][asked], "int": lambda: int(asked), "float": lambda: float(asked), "hash": lambda: hash(asked), "get": lambda: {1: 5}.get(asked, 7),
    "eq": lambda: 2 if asked == 3 else 5, "min": lambda: min(1, 2, key=lambda k: counter.n % 3 * k), "sorted by": lambda: sorted([3, 1, 2], key=lambda k: k * counter.n % 4)[0], "repr": lambda: len(repr(asked)),
    "format": lambda: len(f"{asked}"), "str": lambda: int(str(asked)[1:-1]), "list of": lambda: list(asked)[0], "max of": lambda: max(asked), "getitem": lambda: asked[2], "map": lambda: sum(map(lambda k: k + counter.n, [1, 2])),
    "filter": lambda: len(list(filter(lambda k: (k + counter.n) % 2, [1, 2, 4]))), "round": lambda: round(asked), "reversed": lambda: next(reversed(asked)), "any": lambda: 2 if any(k == counter.n % 3 for k in [1, 2]) else 3,
    "join": lambda: len(",".join(str(counter.n) for _ in range(2))), "unpack": lambda: (lambda a, b: a - b)(*asked), "reduce": lambda: functools.reduce(lambda a, b: a + b + counter.n, [1, 2]),
    "sum": lambda: sum(Giving()), "sum of one": lambda: sum(Giving(1)), "max": lambda: max(Giving()), "any of": lambda: 2 if any(Giving()) else 3, "contains": lambda: 2 if 3 in Giving() else 3, "countOf": lambda: operator.countOf(Giving(), 3),
    "sorted": lambda: sorted(Giving())[0], "set": lambda: max(set(Giving())), "dict": lambda: dict(Pairs())[1], "list": lambda: list(Giving())[1], "fsum": lambda: math.fsum(Giving()), "prod": lambda: math.prod(Giving()),
    "next": lambda: next(Giving()), "indexed": lambda: sum(Indexed()), "generator": lambda: sum(generated()), "chain": lambda: sum(itertools.chain(Giving(), generated())), "accumulate": lambda: list(itertools.accumulate(Giving()))[1],
    "islice": lambda: sum(itertools.islice(Giving(), 1)), "deque": lambda: collections.deque(Giving())[0], "Counter": lambda: list(collections.Counter(Giving()))[0], "add": lambda: functools.reduce(operator.add, Giving()),
    "zip": lambda: sum(a * b for a, b in zip(Giving(), Giving())), "map of": lambda: sum(map(abs, Giving())), "enumerate": lambda: sum(a for _, a in enumerate(Giving())), "iter": lambda: sum(iter(lambda it=Giving(): next(it, -1), -1)),
    "tensor": lambda: torch.tensor(list(Giving())).sum(), "star": lambda: max(*Giving()), "bytes": lambda: sum(bytes(Giving())), "text": lambda: len("".join(map(str, Giving()))), "frozenset": lambda: max(frozenset(Giving())),
    "module": lambda: module(torch.ones(1)), "length of the module": lambda: module(torch.ones(1)) + len(module), "vars of the module": lambda: module(torch.ones(1)) + sorted(vars(module).items(), key=lambda item: item[0])[-2][1],
}


def step(number, x):
    counter.n += 1
    return x * number()


x = torch.ones(2)
for name, number in NUMBERS.items():
    counter.n, results = 0, []
    for _ in range(12):
        results.append(step(number, x))
    print(name, [result[0].item() for result in results])
