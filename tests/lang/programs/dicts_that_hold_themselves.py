"""Dicts that hold themselves, alive where a segment ends."""

import torch

def f(x):
    a = {"name": 1}
    a["child"] = {"parent": a}
    return x + 1, a["child"]["parent"] is a
for i in range(4): print(f(torch.ones(1)), flush=True)
def g(x):
    d = {}
    d["s"] = d
    return x + 1, d["s"] is d
for i in range(4): print(g(torch.ones(1)), flush=True)
