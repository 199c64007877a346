"""Exceptions of C code that hang on a number or a size of this call, caught: the next one may raise another, or none."""

import math

import torch


def a(x, i):
    try:
        return (x * 2)[i]
    except IndexError as e:
        return str(e)


def b(x, i):
    l = [x, x + 1, x + 2]
    try:
        return l[i].sum()
    except IndexError as e:
        return x.sum()


def c(x, i):
    try:
        return x * math.log(i - 3)
    except ValueError as e:
        return x


def d(x, i):
    try:
        return x * (10 // (i - 4))
    except ZeroDivisionError as e:
        return x - 1


def e(x, i):
    try:
        return x.view(i, -1)
    except RuntimeError as e:
        return str(e)


def g(x, i):
    try:
        return x.select(0, i) + torch.zeros(i)[1]
    except (IndexError, RuntimeError) as e:
        return str(e)[:40]


def h(x, i):
    y = x[:i] * 2
    try:
        return y[3]
    except IndexError as e:
        return str(e)


def k(x, i):
    y = x[:i]
    try:
        return list(y)[2], y[2:3].item()
    except (IndexError, RuntimeError) as e:
        return str(e)


def m(x, i):
    y = torch.arange(i)
    try:
        return y.reshape(3, -1).sum(), y.split(2)[2], torch.stack([x, x][:i]), y.unflatten(0, (2, -1))
    except (IndexError, RuntimeError) as e:
        return str(e)[:50]


x = torch.arange(6.)
for f in (a, b, c, d, e, g, h, k, m):
    for i in (2, 2, 3, 5, 1, 7, 7, 9, 4, 4, 0, 2, 6, 3, 8, 1, 1, 2, -1, -9, 5):
        with torch.no_grad():
            try:
                print(f.__name__, i, f(x, i))
            except Exception as error:
                print(f.__name__, i, "raised", error)


def past_the_end(x):
    chosen = x[x > 3]
    try:
        return chosen[2]
    except IndexError as error:
        return str(error)


def plain(c):
    try:
        return c[2]
    except IndexError as error:
        return str(error)


def plain2(c):
    return c[2]


for f in (past_the_end, plain):
  for n in (3, 3, 4, 5, 2, 2, 1, 1, 1, 0, 6):
    with torch.no_grad():
        x = torch.zeros(8); x[:n] = 5
        print(f.__name__, n, f(x if f is past_the_end else x[:n].clone()))
for n in (3, 3, 4, 5, 2, 2, 1, 1, 1, 0, 6):
    try:
        print(plain2(torch.zeros(n)))
    except IndexError as e:
        print(e)
