"""Two names that are one object on some calls: what is written through one is read through the other."""
import json

import torch


class A:
    pass


class Slotted:
    __slots__ = ("n", "z")


def asks(x, a, b):
    a.z = x + 1
    has = hasattr(b, "z")
    also = getattr(b, "z", None) is None, b.__dict__.get("z") is None
    del a.z
    return x + 1, has, also


def counts(x, a, b, c):
    a.n += 1
    b.n += 1
    c.n += 10
    return x * b.n


def reads(x, a, b):
    a.n = a.n + 1
    before = b.n
    b.n = 5
    return x * a.n, before, a.n


def notes(x, s, t):
    s.note = 1
    known = hasattr(t, "note")
    del s.note
    return x + 1, known


def cells():
    n = 0

    def bump(x):
        nonlocal n
        n += 1
        return x * n

    def look(x):
        return x + n

    return bump, look


def calls(x, f, g):
    return f(x) + g(x)


x = torch.ones(1)
many = [A(), A(), A()]
many.append(many[0])
for i, j in ((0, 0), (0, 1), (0, 2), (0, 3), (0, 3), (1, 1), (2, 2), (0, 1)):
    print(i, j, asks(x, many[i], many[j])[1:])
class Table(dict):
    pass


for kind in (A, Slotted, Table):
    three = [kind(), kind(), kind()]
    for one in three:
        one.n = 0
    for i in (0, 1, 2) * 3:
        for j in (0, 1, 2):
            print(i, j, counts(x, three[0], three[i], three[j]).item(), [one.n for one in three])
    for i in (0, 1, 2) * 3:
        for j in (0, 1, 2):
            print(i, j, reads(x, three[i], three[j])[1:], [one.n for one in three])
tensors = [torch.zeros(2), torch.ones(2), torch.ones(2)]
for i in (0, 1, 2) * 3:
    for j in (2, 1, 0):
        print(i, j, notes(tensors[i], tensors[i], tensors[j])[1])
first, second = cells(), cells()
for f, g in ((first[0], second[1]), (second[0], first[1]), (first[0], first[1]), (second[0], second[1])) * 3:
    print(calls(x, f, g).item())


def layouts(*tensors):
    out = []
    for tensor in tensors:
        out.append((tensor.tolist(), tensor.is_contiguous(), tensor.stride()))
    return [one[1] for one in out]


def layout(tensor):
    json.dumps(1)
    return tensor.is_contiguous(), tensor.T.is_contiguous(), (tensor + 1).stride()


# A part of a tensor that takes all of it.
whole = torch.zeros(2, 4)
for n in (1, 2, 3, 4) * 4:
    part = whole[:, :n]
    print(n, layouts(part), layouts(part), layouts(whole, part), layout(part), layout(part.T))


class Many:
    __slots__ = ("a", "b", "c", "d", "e", "g")


class Empty:
    __slots__ = ()


def slot(x, s):
    return x * 2 + s.g


# An object without the slot in the place of one that has it.
for i in range(40):
    if i % 3:
        s = Many()
        s.g = torch.ones(2)
    else:
        s = (1.5, Empty(), 7, 2**70)[i // 3 % 4]
    try:
        print(i, slot(torch.ones(2), s).sum().item())
    except AttributeError as error:
        print(i, error)


def borg(x, a, b):
    a.n += 1
    b.n += 1
    return x * b.n


def sets(x, a, b):
    a.n = 5
    return x + b.n


def item(x, d, b):
    d["n"] = 9
    return x + b.n


def names(x, a, b):
    a.q = x
    return hasattr(b, "q"), x + 1


class B:
    pass


def two(same, kind=A):
    a, b = A(), kind()
    a.n = b.n = 0
    if same:
        b.__dict__ = a.__dict__
    return a, b


# Two objects that share their attributes.
for order in ((0, 0, 0, 1, 0, 1), (1, 1, 1, 0, 1, 0)):
    for kind in (A, B):
        for function in (borg, sets, names):
            for same in order:
                a, b = two(same, kind)
                result = function(x, a, b)
                print(function.__name__, same, result[0] if isinstance(result, tuple) else result.item(), a.n, b.n)
    for same in order:
        d, b = {"n": 1}, A()
        b.n = 1
        if same:
            b.__dict__ = d
        print("item", same, item(x, d, b).item())

SOURCE = compile("def g(x):\n    global n\n    n += 1\n    return x * n\ndef h(x):\n    return x + n\n", "m", "exec")


def namespace():
    module = type(torch)("m")
    module.n = 0
    exec(SOURCE, module.__dict__)
    return module


def by_functions(x, g, h):
    return g(x) + h(x)


def by_module(x, g, m):
    y = g(x)
    return y + m.n


for order in ((0, 0, 0, 1, 0, 1), (1, 1, 1, 0, 1, 0)):
    for same in order:
        one = namespace()
        other = one if same else namespace()
        print(same, by_functions(x, one.g, other.h).item(), one.n, other.n)
    for same in order:
        one = namespace()
        other = one if same else namespace()
        print(same, by_module(x, one.g, other).item(), one.n, other.n)


def own_dict(x):
    a = A()
    a.n = 1
    attributes = a.__dict__
    y = x + 1
    json.dumps(1)
    attributes["k"] = 2
    return a.k, y


def given_dict(x):
    a, b = A(), A()
    a.n = 1
    y = x + 1
    b.__dict__ = a.__dict__
    b.n = 7
    return a.n, b.n, y


for turn in range(5):
    print(own_dict(x)[0], given_dict(x)[:2])
