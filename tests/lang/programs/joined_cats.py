"""Concatenations that are made where they are read, beside writes to what they read: of numbers whose sums are exact."""
import torch


def rot(x):
    n = x.shape[-1] // 2
    return torch.cat((-x[..., n:], x[..., :n]), -1)


def f(x):
    x.copy_(rot(x) * 2)
    return x + 1


def g(x):
    y = x + 1
    y.copy_(rot(y) * 2)
    return y


def h(x):
    y = x * 1.5
    r = rot(y) + y
    y.mul_(2)
    return r, y, rot(y) * 2


def k(x):
    r = torch.cat((-x[..., 4:], x[..., :4]), -1)
    x.add_(1)
    return r * 2, r + x


def m(x):
    a = torch.neg(x)
    x.add_(3)
    r = torch.cat((a, x), -1)
    return r * r


def p(x):
    a = torch.neg(x)
    r = torch.cat((a, x), 0) * 2
    a.add_(1)
    return r, a


def q(x):
    x[..., :4], x[..., 4:] = (x[..., 4:] * 2).clone(), (x[..., :4] * 3).clone()
    return torch.cat((x[..., 4:], x[..., :4]), -1) * 2 + x


def s(x):
    x += torch.cat((-x[..., 4:], x[..., :4]), -1) * 0.5
    return x


def u(x):
    torch.mul(torch.cat((-x[..., 4:], x[..., :4]), -1), 2, out=x)
    return x.sum()


def v(x):
    y = torch.empty_like(x)
    y.copy_(x)
    for _ in range(3): y += rot(y) * 0.5
    return y

def exact(shape, i):
    count = 1
    for size in shape:
        count *= size
    return ((torch.arange(count) * 5 + i) % 7 - 3).to(torch.float32).reshape(shape)


def flat(r):
    return r if isinstance(r, tuple) else (r,)


for fn in (f, g, h, k, m, p, q, s, u, v):
    for shape in ((3, 8), (2, 64, 8), (5, 8)):
        for i in range(4):
            x = exact(shape, i)
            r = flat(fn(x)) + (x,)
            print(fn.__name__, shape, i, [t.double().sum().item() for t in r], [(t.double().flatten() * torch.arange(t.numel())).sum().item() for t in r])
