"""Generators that recorded code makes, runs through, breaks in and leaves suspended."""
import torch
torch.manual_seed(0)
def work(x): return torch.relu(x*1.01+0.1).tanh()
def leaf(x, n):
    for i in range(n):
        x = work(x)
        if x.sum() > 1e9: print("never")
        got = yield x
        if got is not None: x = x + got
    return x.mean()
def outer(x, n):
    try:
        m = yield from leaf(x, n)
        yield m
    finally:
        print("outer closed")
def consume(x, n):
    out = []
    for i, y in enumerate(outer(x, n)):
        if y.sum().item() > 0: out.append(y)
        if i == 4: break
    return torch.stack([o.sum() for o in out])
def sender(x):
    g = leaf(x, 3)
    next(g)
    a = g.send(x)
    try:
        g.send(1.0); g.send(None)
    except StopIteration as e:
        return a + e.value
def live(x):
    def gen():
        y = x
        while True:
            y = work(y); yield y
    g = gen()
    a = next(g)
    if a.sum() > 0: a = a + next(g)
    for b in g:
        a = a + b
        if a.sum() > 20: return a, g
def zipped(x):
    r = 0
    for a, b in zip(leaf(x, 4), (i for i in range(10))):
        if a.max() > 0: r = r + a * b
    return r
def raising(x):
    def bad():
        yield work(x)
        raise ValueError("planned")
    t = 0
    try:
        for y in bad(): t = t + y.sum()
    except ValueError as e:
        print("caught", e, e.__traceback__.tb_next.tb_lineno - bad.__code__.co_firstlineno if False else "")
        t = t + 1
    return t
for k in range(8):
    x = torch.ones(4,4) * (k % 3 + 0.5)
    print(consume(x, 3), consume(x, 7), sender(x))
    a, g = live(x); print(a.sum(), next(g).sum(), g.gi_frame.f_lineno, sorted(g.gi_frame.f_locals))
    print(zipped(x).sum(), raising(x))
