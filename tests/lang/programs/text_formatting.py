import torch
from support import seq, show


def model(x, n, f):
    y = x * n
    return f"{n:05d} {f:.3f} {f:>10.2e} {n!r} {y.shape} {'x':^5} {n:,} {f:g} {n + f:{n}.1f}", "%d %s %.2f" % (n, y.dtype, f), "{0}-{name}".format(n, name=f), str(n) + repr(f), "abc"[n % 3] * n


for n, f in ((3, 2.5), (3, 2.5), (4, 1e10), (3, 2.5), (5, -0.125), (3, 0.1)):
    show(*model(seq(2), n, f))
