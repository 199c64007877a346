"""What a class lets go of dies, though a segment looked it up: a list or a dict cannot be referred to weakly."""

import gc
import weakref

import torch

class Big: pass
class D: pass
def f(x): return x * len(D.items)
for make in (lambda b: [b], lambda b: {"a": b}):
    big = Big(); D.items = make(big); w = weakref.ref(big); del big
    for i in range(6): f(torch.ones(1))
    D.items = None
    gc.collect()
    print("dead", w() is None)
