"""Numbers and texts from outside that are equal to those of earlier calls and are other objects: who asks for identity gets it."""
import torch
from support import show

x = torch.arange(3.0)
nan, other = float("nan"), float("nan")
sentinel, equal = " ".join("ab"), " ".join("ab")
table, listed = {nan: 5}, [nan]


def large():
    return int("1" + "0" * 30)


def is_sentinel(b):
    y = x + 1
    return b is sentinel, y


def same(a, b):
    return x + 1, a is b


def chosen(a, b):
    return x + 1 if a is b else x + 2


def given_back(a):
    return x + 1, a


def stored(holder, a):
    holder.value = a
    return x * 2


class Holder:
    value = None


for a in [other, other, nan, other, nan, other, other, nan]:
    y = x + 1
    print(table.get(a), a in table, a in listed, [a] == [nan])
for b in [equal, equal, equal, equal, sentinel, equal, sentinel, sentinel, equal]:
    show(*is_sentinel(b))
number = large()
for a, b in [(number, large()), (number, large()), (number, large()), (number, number), (number, large()), (number, number), (number, number), (number, large()), (number, number)]:
    show(*same(a, b))
for a, b in [(1.5, 1.5), (sentinel, equal), (sentinel, sentinel), (nan, nan), (nan, other), (other, other), (nan, other), (listed, listed), (nan, nan), (nan, other)] * 3:
    show(chosen(a, b), same(a, b)[1])
holder = Holder()
for make in (lambda: " ".join("abc"), lambda: float("nan"), large, lambda: 2.0 ** 0.5, lambda: b"".join([b"a", b"bc"])):
    given = [make() for _ in range(8)]
    print([given_back(a)[1] is a for a in given])
    for a in given:
        stored(holder, a)
        print(holder.value is a, end=" ")
    print()
