"""What Python code does with sizes that data decides: methods of torch.Size, functions of numbers and sequences."""
import torch
def a(m): return m.shape.numel()
def b(m): return m.shape.count(20)
def c(m): return m.shape.index(2) if 2 in m.shape else -1
def d(m): return sum(m.shape), max(m.shape), sorted(m.shape), list(m.shape), tuple(m.shape), m.shape[::-1], m.shape + (1,), m.shape * 2
def e(m): return hash(m.shape) == hash(tuple(m.shape)), m.shape == (3, 2), 3 in m.shape, m.shape < (3, 3), {m.shape: 1}.get(torch.Size((3, 2)))
def f(m): return str(m.shape), repr(m.shape), f"{m.shape}", "%s" % (m.shape,), bool(m.shape), len(m.shape)
def g(m): return [i * 2 for i in m.shape], dict(enumerate(m.shape)), isinstance(m.shape, torch.Size), type(m.shape), m.numel(), m.shape.__len__(), m.shape.__getitem__(0), m.shape.__contains__(3)
def h(m):
    x, y = m.shape
    return x, y, x * y, x == 3, x > 2, (x, y) == (3, 2), min(x, y), range(x), list(range(x)), [0] * x, "a" * x, float(x), str(x), divmod(x, 2), x & 1, -x, abs(-x), pow(x, 2), x ** 2, x // 2, x % 2, x / 2, x << 1, round(x / 3, 2), hex(x), bin(x), chr(65 + x), int(x), bool(x), x or 5, x and 7, not x, x if x > 2 else -x
def i(m):
    s = set(m.shape); s.add(9); return sorted(s), frozenset(m.shape) == frozenset((3, 2)), all(m.shape), any(m.shape), list(map(str, m.shape)), list(zip(m.shape, "ab")), m.stride(), m.stride(0), m.is_contiguous(), m.nbytes, m.storage_offset(), m.ndim, m.T.shape, m.t().size(), m.unsqueeze(0).shape, m.flatten().shape, m.shape[-1], m.shape[:1], m.shape[0:2]
def j(m):
    t = (m.shape[0], 2)
    return t.count(3), t.index(2), len(t), sum(t), max(t), sorted(t), hash(t) == hash((3, 2)), t == (3, 2), 3 in t, t < (3, 3), {t: 1}.get((3, 2)), t + (1,), t[0], t[::-1], list(t), [*t], {"a": t}, math.prod(t), operator.mul(*t)
import math, operator
x = torch.randn(8, 2)
for fn in (a, b, c, d, e, f, g, h, i, j):
    for k in range(14):
        m = torch.arange(8) < [3, 3, 3, 4, 2, 3, 0, 1, 3, 5, 2, 3, 4, 8][k]
        def go(x, m): return fn(x[m])
        try: print(fn.__name__, k, fn(x[m]), go(x, m))
        except Exception as error: print(fn.__name__, k, type(error), error)
def w(x, m): return a(x[m]), b(x[m]), c(x[m])
for fn in (a,b,c,d,e,f,g,h,i,j):
    ns = {}
    exec(f"def q(x, m):\n    y = x[m]\n    return fn(y)", {"fn": fn}, ns)
    for k in range(14):
        m = torch.arange(8) < [3, 3, 3, 4, 2, 3, 0, 1, 3, 5, 2, 3, 4, 8][k]
        try: print(fn.__name__, k, ns["q"](x, m))
        except Exception as error: print(fn.__name__, k, type(error), error)
