"""Texts of objects hold their addresses: those of this call's objects."""

import torch

def mk():
    def inner(t): return t + 1
    return inner
class P:
    def m(self): pass
def ff(x, f): return x + 1, repr(f), str(f), [repr([f])]
def fo(x, o): return x + 1, repr([o]), str({1: o}), ",".join(map(str, [o]))
def fm(x, o): return x + 1, repr(o.m)
def check(f, a, b):
    for o in (a, a, a, b, b, a):
        print(f.__name__, [hex(id(o)) in str(t) for t in f(torch.ones(1), o)[1:]])
check(ff, mk(), mk()); check(fo, P(), P()); check(fm, P(), P())
