"""Numbers that change between calls reach operators through partial, **kwargs and containers: none may be baked in."""
import functools
import operator

import torch
from support import seq, show


def through_partial(x, rate):
    return functools.partial(torch.mul, x)(rate)


def through_keywords(x, rate):
    weight = x.mean().item() + rate
    return (lambda *a, **k: a[0] + k.get("w", 1))(x, w=weight)


def through_container(x, rate):
    box = {"r": rate, "s": [rate, rate * 2]}
    return x * box["r"] + x * box["s"][1] + box.get("none", rate)


def through_operator(x, rate):
    return operator.mul(x, rate) + functools.reduce(operator.add, [rate, rate], 0.5) * x


def through_default(x, rate):
    def inner(v, k=rate):
        return v * k
    return inner(x) + [lambda v, k=k: v * k for k in (rate, 2 * rate)][1](x)


for function in (through_partial, through_keywords, through_container, through_operator, through_default):
    for step in range(8):
        show(function.__name__, function(seq(2, 3, start=step % 3), 0.25 * (step % 2) + (step == 6)))
