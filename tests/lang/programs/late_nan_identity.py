import torch
def a(t): n = t.item(); l = [n]; return n in l
def b(t): n = t.item(); l = [n, n]; return l.count(n)
def c(t): n = t.item(); return [n] == [n]
def d(t): n = t.item(); return len({n, n})
def e(t): n = t.item(); l = [n]; return l[0] is n, l[0] is l[-1]
def f(t): n = t.item(); l = [n, n * 2]; l.sort(); return n in l
def g(t): n = t.item(); d = {'n': n}; return n in d.values()
def h(t): n = t.item(); l = [n]; l.append(n); l.reverse(); return l.index(n)
def i(t): l = t.tolist(); m = max(l); return l.index(m)
def j(t): l = t.tolist(); m = sorted(l); return l == m, l[0] in m
def k(t): n = t.item(); l = [n]; l += [n]; return l, n in l, tuple(l) == (n, n)
def m(t): n = t.item(); l = []; l.append(n); l.insert(0, n * 2); d = {n: 1}; return d[n], n in l, l.index(n)
def o(t): n = t.sum().item(); l = [n]; r = max(l); return n == l[0], r is n, n in l, l.index(n)
for fn in (a, b, c, d, e, f, g, h, i, j, k, m, o):
    for v in (1., 2., 3., float('nan'), 4., float('nan'), float('nan'), 1.):
        t = torch.tensor([v, v, v]) if fn in (i, j) else torch.tensor([v])
        try: print(fn.__name__, v, fn(t))
        except Exception as x: print(fn.__name__, v, type(x), x)
