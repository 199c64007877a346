import torch
from support import seq, show, trace


def model(items):
    first, *middle, last = items
    (a, b), *rest = [(first, last), *middle]
    joined = [*middle, *rest, *(a, b)]
    table = {**{"n": len(joined)}, **{"m": len(middle)}}
    return a - b, joined, table


for n in (2, 2, 3, 4, 3, 1, 2):
    try:
        show(*model([seq(2, start=i) for i in range(n)]))
    except ValueError:
        print(trace())
