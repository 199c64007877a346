"""The random module's stream in recorded code: the same numbers, and the same state afterwards."""

import random

import torch


def scaled(x):
    return x * random.random() + random.uniform(1, 2)


def chosen(x):
    return x + random.choice([1, 2, 3]), random.choice("abc"), random.choice(["u", "v"]), random.randint(0, 3), random.randrange(2, 9)


def branch(x):
    if random.random() < 0.5:
        return x + 1
    return x - 1


def shown(x):
    print(f"{random.random():.3f}", random.randint(1, 6), "%.2f" % random.gauss(0, 1))
    return x * 2


def fails(x, y):
    n = random.random()
    return (x + n) @ y


def shuffled(x):
    order = list(range(4))
    random.shuffle(order)
    return x[order], random.sample(range(9), 3)


def seeded(x, seed):
    random.seed(seed)
    return x * random.random(), random.getrandbits(8)


def own(x, rng):
    return x * rng.random() + rng.randint(0, 4), rng.getrandbits(5)


def mixed(x):
    a = random.random()
    y = torch.dropout(x, 0.5, True)
    return y * a + random.random() * torch.rand(2)


random.seed(11)
torch.manual_seed(0)
mine = random.Random(4)
for i in range(10):
    x = torch.ones(4) + i
    print(scaled(x), chosen(x), branch(x), shown(x), shuffled(x), own(x, mine), mixed(torch.ones(2)))
    try:
        print(fails(torch.ones(2, 2), torch.ones(2 + (i == 7), 2)))
    except RuntimeError as error:
        print("raised", type(error).__name__)
    state = random.getstate()
    print(hash(state[1]), random.random())
    random.setstate(state)
    print(seeded(x, i % 3), random.random())
random.random = lambda: 0.25
print(scaled(torch.ones(2)), branch(torch.ones(2)))
