import gc
import sys
import weakref
import torch
from support import seq, show


class Big:
    pass


def model(x, store):
    big = Big()
    big.tensor = x * 2
    store.append(weakref.ref(big))

    def inner():
        return big.tensor + 1

    return inner() if len(store) % 2 else inner


for step in range(6):
    store = [None] * (step % 2)
    out = model(seq(2), store)
    print(store[-1]() is None)
    if callable(out):
        show(out())
        del out
        print(store[-1]() is None)
    else:
        show(out)
