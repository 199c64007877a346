"""Exceptions that leave or stay in loops which CPython runs: same handlers, same tracebacks, same lines."""
import sys
import traceback

import torch


def show():
    lines = traceback.format_exc().splitlines()
    print("\n".join(line for line in lines if "^^" not in line).replace(__file__, "FILE"))


count = 0
while True:
    try:
        count += 1
        row = torch.ones(3) * count
    except ValueError:
        print("wrong handler")
    later = row.sum() * 2
    try:
        if count == 15:
            raise KeyError("inner")
    except KeyError as error:
        print("caught", error, count, float(later))
        break

try:
    turn = 0
    while True:
        try:
            turn += 1
            value = torch.ones(2) + turn
        except RuntimeError:
            print("wrong handler")
        wide = value * 2
        if turn == 17:
            wide = torch.ones(3) @ torch.ones(5)
except RuntimeError:
    show()
print(turn, wide.tolist())


def bare():
    result = torch.zeros(2)
    for i in range(30):
        result = result + torch.ones(2) * i
        if i == 25:
            result = result + torch.ones(7)
    return result


def tidy():
    kept = torch.zeros(2)
    try:
        for i in range(30):
            kept = kept + i
            if i == 20:
                raise LookupError("out of the loop")
    finally:
        print("finally", i, kept.tolist())


for function in (bare, tidy):
    try:
        function()
    except Exception:
        show()


class Quiet:
    def __enter__(self):
        return self

    def __exit__(self, kind, error, where):
        print("exit", kind and kind.__name__, where and where.tb_lineno)
        return True


def guarded():
    x = torch.ones(2)
    for i in range(25):
        with Quiet() if i in (5, 21) else torch.no_grad():
            x = x + i
            if i == 21:
                raise OSError("swallowed")
    return x


print(guarded().tolist())


def lines():
    where = set()
    x = torch.ones(2)
    for i in range(20):
        x = x * 1.01
        where.add(sys._getframe().f_lineno)
        where.add(sys._getframe(0).f_lasti > 0)
        x = x + 1
    return sorted(where), round(float(x.sum()), 3), sys._getframe().f_locals["i"]


print(lines())
