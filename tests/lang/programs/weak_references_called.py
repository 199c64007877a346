"""Weak references that recorded code calls: what they refer to changes, dies, is replaced; nn.LSTM keeps such to its weights."""
import weakref

import torch
from torch import nn


class Node:
    def __init__(self, value):
        self.value = value


class Holder:
    def __init__(self, node):
        self.ref = weakref.ref(node)
        self.refs = [self.ref, weakref.ref(node)]


def reads(x, holder):
    node = holder.ref()
    if node is None:
        return x - 1
    return x * node.value


def compares(x, holder, node):
    for ref in holder.refs:
        if ref is not None and ref() is not node:
            x = x + 10
    return x


def made(x, node):
    ref = weakref.ref(node)
    return x + ref().value, ref() is node


def tensors(x, refs):
    total = x
    for ref in refs:
        if ref() is not None:
            total = total + ref()
    return total


def keyed(x, table, key):
    return x * table[key].value if key in table else x


node, other = Node(2.0), Node(3.0)
holder = Holder(node)
table = weakref.WeakValueDictionary(a=node)
weights = [torch.ones(2), torch.ones(2) * 2]
refs = [weakref.ref(w) for w in weights]
for step in range(12):
    x = torch.full((2,), float(step % 3))
    print(step, reads(x, holder), compares(x, holder, node), made(x, other), tensors(x, refs), keyed(x, table, "a"))
    if step == 3:
        node.value = 5.0
    if step == 5:
        node = other
    if step == 7:
        holder = Holder(other)
        table["a"] = other
    if step == 8:
        weights.pop()
    if step == 9:
        other = node = Node(7.0)


def rounded(*tensors):
    return [round(one.sum().item(), 3) for one in tensors]


torch.manual_seed(0)
lstm, gru = nn.LSTM(3, 4, num_layers=2, batch_first=True), nn.GRU(3, 4, bidirectional=True)
x = torch.randn(2, 5, 3)
with torch.no_grad():
    for step in range(10):
        out, (h, c) = lstm(x[:, : 2 + step % 3])
        print(step, out.shape, *rounded(out, h, gru(x)[0]))
        if step == 3:
            lstm.weight_ih_l0.mul_(0.5)
        if step == 5:
            lstm.weight_hh_l0 = nn.Parameter(torch.ones(16, 4) * 0.1)
        if step == 7:
            changed = {"weight_ih_l0": torch.zeros(16, 3)}
            print(*rounded(torch.func.functional_call(lstm, changed, (x,))[0]))
for step in range(4):
    lstm.zero_grad()
    lstm(x)[0].sum().backward()
    print(step, *rounded(lstm.weight_ih_l0.grad.abs()))


class Owner:
    def __init__(self):
        self.thing = Node(4.0)


def replaced_thing(x, owner, ref):
    thing = owner.thing
    x = x * thing.value
    same = ref() is thing
    del thing
    owner.thing = Node(1.0)
    return x, same, ref() is None


def owned():
    owner = Owner()
    return owner, weakref.ref(owner.thing)


for step in range(8):
    x = torch.ones(2) * step
    print(step, replaced_thing(x, *owned()))
