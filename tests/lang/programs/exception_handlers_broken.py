"""Segments that end, print and go on inside the handlers of exceptions."""
import sys
import traceback
import torch
from support import seq, show


class Planned(Exception):
    def __init__(self, text, number):
        super().__init__(text)
        self.number = number


def work(x):
    return torch.relu(x * 1.01 + 0.1).tanh()


def prints(x):
    try:
        x = work(x)
        raise KeyError("planned")
    except KeyError as error:
        print(error.args, repr(error))
        return work(x)
    finally:
        print("outer")


def breaks(x, kind):
    try:
        x = work(x)
        raise kind("planned", 3) if kind is Planned else kind("planned")
    except (ValueError, Planned) as error:
        if x.sum() > 0:
            x = work(x)
        seen = sys.exc_info()[1]
        lines = [entry.lineno - breaks.__code__.co_firstlineno for entry in traceback.extract_tb(error.__traceback__)]
        return x, seen is error, lines, getattr(error, "number", None), error.__context__


def chained(x):
    try:
        try:
            raise ValueError("first")
        except ValueError as first:
            print("handling", first)
            if x.max() > 0:
                x = work(x)
            raise RuntimeError("second") from first
    except RuntimeError as second:
        print(repr(second.__cause__), second.__context__ is second.__cause__)
        return work(x)


class Closed:
    def __init__(self):
        self.out = sys.stdout

    def write(self, text):
        raise OSError("closed")

    def flush(self):
        pass


def failing(x, stream):
    x = work(x)
    try:
        raise KeyError("planned")
    except KeyError:
        try:
            print("lost", file=stream)
        except OSError as error:
            return x, repr(error), repr(error.__context__), error.__context__.__traceback__.tb_frame.f_code.co_name
    return work(x), None, None, None


def inner(x):
    raise ValueError("inner")


def from_a_call(x):
    try:
        inner(work(x))
    except ValueError as error:
        print(error)
        x = work(x)
        depth = 0
        tb = error.__traceback__
        while tb:
            depth, tb = depth + 1, tb.tb_next
        return x, depth


def kept(x):
    errors = []
    for i in range(3):
        try:
            if x.sum() > i:
                raise ValueError(i)
        except ValueError as error:
            errors.append(error)
            continue
    return work(x), [repr(e) for e in errors], [e.__traceback__.tb_lineno - kept.__code__.co_firstlineno for e in errors]


def steps(x, y):
    # Breaks with nothing but loads between them.
    a = x.numpy()
    b = a * 2
    c = torch.from_numpy(b)
    return work(c) + y


for k in range(8):
    x = seq(3, start=k % 3)
    show(prints(x))
    show(*breaks(x, ValueError), *breaks(x, Planned))
    show(chained(x))
    show(*failing(x, Closed() if k % 2 else sys.stdout))
    show(*from_a_call(x))
    show(*kept(x))
    show(steps(x, 1 if k < 4 else x))
    print(sys.exc_info())
