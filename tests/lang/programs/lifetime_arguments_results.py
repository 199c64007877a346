import weakref
import torch
from support import seq, show


def model(x, keep):
    y = x * 2
    z = y + 1
    keep.append(weakref.ref(y, lambda ref: print("intermediate died")))
    return z


for step in range(6):
    keep = []
    x = seq(3, start=step % 2)
    watch = weakref.ref(x, lambda ref: print("argument died"))
    z = model(x, keep)
    done = weakref.ref(z, lambda ref: print("result died"))
    print("after call", keep[0]() is None)
    del x
    print("after del x")
    show(z)
    del z
    print("after del z")
