"""Decimals and instances of subclasses of numbers and texts are compared by value with constants."""

import decimal

import torch

class I(int): pass
class F(float): pass
class S(str): pass
class Cx(complex): pass
def f(x, v): y = x + 1; return v == 2, v != 2, 2 if v == 2 else 1
def g(x, v): y = x + 1; return v == "bb", "a" if v == "a" else None
for T in (decimal.Decimal, I, F, Cx):
    print(T.__name__, [f(torch.ones(1), T(1)) for i in range(4)], [f(torch.ones(1), T(2)) for i in range(3)], flush=True)
print([g(torch.ones(1), S("a")) for i in range(4)], [g(torch.ones(1), S("bb")) for i in range(3)])
