import torch
from support import seq, show


def reduce(tree):
    if isinstance(tree, torch.Tensor):
        return tree
    if isinstance(tree, dict):
        return sum(reduce(v) for v in tree.values())
    left, *rest = [reduce(node) for node in tree]
    for node in rest:
        left = torch.tanh(left + node)
    return left


for step in range(6):
    x = seq(2, start=step % 2)
    show(reduce([x, [x + 1, [x * 2]], {"a": x, "b": [x, x]}] if step % 3 else [x]))
