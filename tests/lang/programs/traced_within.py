# Tracing that is switched on and off again in functions that have been replayed.
import sys

import torch

x = torch.randn(3, 4)
seen = []


def trace(frame, event, argument):
    seen.append((frame.f_code.co_name, event, frame.f_lineno - frame.f_code.co_firstlineno))
    return trace


def profile(frame, event, argument):
    if event in ("call", "return"):
        seen.append((frame.f_code.co_name, event))


def inner(x):
    return x * 2


def traced(x, i):
    if i % 3 == 1:
        sys.settrace(trace)
    z = inner(x)
    if i % 3 == 1:
        sys.settrace(None)
    return z


def profiled(x, i):
    if i % 3 == 1:
        sys.setprofile(profile)
    for _ in range(2):
        z = inner(x)
    if i % 3 == 1:
        sys.setprofile(None)
    return z


def main(function):
    for i in range(12):
        function(x, i)
        print(function.__name__, i, seen, flush=True)
        seen.clear()


for function in (traced, profiled):
    main(function)
    for i in range(12):
        function(x, i)
    print(len(seen))
    seen.clear()
