import torch
from support import seq, show


def model(items):
    out = []
    for index, item in enumerate(items):
        out.append(item * index)
    out.insert(0, items[-1])
    out.extend([out[0] + 1, out[1]])
    last = out.pop()
    out[1:2] = [last, last]
    out.reverse()
    return out, len(out)


for length in (2, 2, 2, 3, 3, 2, 4, 3, 2):
    show(*model([seq(2, start=i) for i in range(length)]))
