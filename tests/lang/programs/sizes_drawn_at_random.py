"""Sizes and offsets that a random.Random draws anew on each call, given to every kind of operator."""

import random

import torch

rng = random.Random(0)
random.seed(1)
rows = torch.arange(64.0).view(16, 4)

FORMS = {
    "zeros": lambda k: torch.zeros(k, 2),
    "ones": lambda k: torch.ones(2, k) * 2,
    "full": lambda k: torch.full((k,), 1.5),
    "eye": lambda k: torch.eye(k),
    "arange": lambda k: torch.arange(k) * 2,
    "new_zeros": lambda k: rows.new_zeros(k, 3) + 1,
    "expand": lambda k: rows[:1].expand(k, 4) + 1,
    "repeat": lambda k: rows[:2].repeat(k, 1),
    "narrow": lambda k: rows.narrow(0, k, 3),
    "roll": lambda k: rows.roll(k, 0)[0],
    "slice": lambda k: rows[k:k + 2],
    "select": lambda k: rows[k],
    "topk": lambda k: rows[:, 0].topk(k)[0],
    "tril": lambda k: rows.tril(k - 3).sum(1),
    "repeat_interleave": lambda k: rows[:2, 0].repeat_interleave(k),
    "split": lambda k: [part.sum() for part in rows.split(k)],
    "view": lambda k: torch.zeros(2 * k).view(k, 2) + 1,
    "linear": lambda k: torch.nn.functional.linear(rows[:k], rows[:3]),
}


def from_method(form):
    k = rng.randint(1, 6)
    return k, FORMS[form](k)


def from_bits(form):
    return 0, FORMS[form](rng.getrandbits(2) + 1)


def from_module(form):
    k = random.choice([1, 2, 5])
    return k, FORMS[form](k)


def from_float(form):
    k = 1 + int(rng.random() * 5)
    return k, FORMS[form](k + 1)


def show(value):
    if isinstance(value, list):
        return [show(item) for item in value]
    return tuple(value.shape), round(value.double().sum().item(), 3)


for draw in (from_method, from_bits, from_module, from_float):
    for form in FORMS:
        print(draw.__name__, form, [(k, show(value)) for k, value in map(draw, [form] * 12)])

for turn in range(20):
    made = torch.zeros(rng.getrandbits(2), 4)
    print(tuple(made.shape), made.numel(), rng.getrandbits(8))
