import functools
import torch
from support import seq, show


@functools.lru_cache(maxsize=2)
def table(n):
    print("building", n)
    return seq(n)


def model(x):
    return x + table(x.shape[0])


for n in (2, 2, 2, 3, 2, 4, 3, 2, 2):
    show(model(seq(n, start=1)))
print(table.cache_info().currsize)
