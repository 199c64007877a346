"""Numbers that vary as keyword arguments of the function where a recording begins."""

import torch
from support import seq, show


def keywords(x, **options):
    return x + options.get("w", 1) * options["v"]


def both(*args, **options):
    return args[0] * args[1] + options["w"]


def given(x, i):
    return (lambda *a, **k: a[0] + k.get("w", 1) * a[1])(x, i % 7, w=x.mean().item())


for step in range(12):
    x = seq(2 + step % 2, 3, start=step)
    show(keywords(x, w=step / 4, v=step % 3), both(x, step, w=step / 2), given(x, step))
