"""Regions of autocast that begin and end where recordings do not, weights written inside of them, and code that is never recorded beside."""
import sys

import torch
from support import fixed, seq, show

BF = torch.bfloat16
x = seq(4, 8)


def linear():
    return fixed(torch.nn.Linear(8, 8))


def tell(*tensors):
    for tensor in tensors:
        print(tensor.dtype, end=" ")
        show(tensor.float())


def cold(source):
    """Statements that run once each, as new code."""
    exec(compile(source, "<cold>", "exec"), sys._getframe(1).f_globals)


def dtype_of_a_region(x):
    with torch.autocast("cpu", dtype=torch.float16):
        y = torch.mm(x, x.t())
        eval("0")
        return y + 1


for _ in range(6):
    dtype_of_a_region(x)
    with torch.autocast("cpu"):
        print(torch.mm(x, x.t()).dtype, torch.get_autocast_dtype("cpu"))

l = linear()


def written_behind_a_break(x):
    with torch.autocast("cpu", dtype=BF):
        h = l(x)
        h.float().sum().item()
        with torch.no_grad():
            l.weight.mul_(1.125)
        return h, l(x)


def two_regions(x):
    with torch.autocast("cpu", dtype=BF):
        eval("0")
        h = l(x)
    with torch.no_grad():
        l.weight.mul_(0.875)
    with torch.autocast("cpu", dtype=BF):
        return h, l(x)


with torch.no_grad():
    for _ in range(8):
        tell(*written_behind_a_break(x))
    for _ in range(8):
        tell(*two_regions(x))

l = linear()
optimizer = torch.optim.SGD(l.parameters(), lr=0.25)


def step_inside(x):
    with torch.autocast("cpu", dtype=BF):
        loss = l(x).float().square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss.detach(), l(x)


for _ in range(8):
    tell(*step_inside(x))
    tell(l.weight.grad)

l = linear()


def hot(x, weight):
    return torch.nn.functional.linear(x, weight).float().relu() * 2


with torch.no_grad():
    for _ in range(12):  # written behind its version counter, between regions
        cold("with torch.autocast('cpu', dtype=BF): tell(hot(x, l.weight), torch.mm(x, l.weight))")
        l.weight.data.mul_(1.0625)
    for i in range(12):  # another weight, perhaps where the last one was
        cold("""with torch.autocast('cpu', dtype=BF):
            weight = torch.nn.Parameter(torch.full((8, 8), i + 1.0))
            tell(hot(x, weight), torch.mm(x, weight))""")
    average = seq(8, 8, start=3)
    for i in range(12):  # torch has the cast of other numbers
        cold("""with torch.autocast('cpu', dtype=BF):
            if i > 6:
                data, l.weight.data = l.weight.data, average
                tell(torch.mm(x, l.weight))
                l.weight.data = data
            tell(hot(x, l.weight))""")


def with_a_cache(x):
    with torch.autocast("cpu", dtype=BF, cache_enabled=True):
        return torch.relu(l(x)).float()


with torch.no_grad():
    for _ in range(6):
        cold("""with torch.autocast('cpu', dtype=BF, cache_enabled=False):
            tell(with_a_cache(x)); l.weight.mul_(1.0625); tell(*[with_a_cache(x) for _ in range(4)])""")
    l = linear()
    for i in range(12):  # of other numbers from the first time on
        cold("""with torch.autocast('cpu', dtype=BF):
            if i % 4 == 1:
                data, l.weight.data = l.weight.data, average
                tell(torch.mm(x, l.weight))
                l.weight.data = data
            tell(hot(x, l.weight), torch.mm(x, l.weight))""")


def another_dtype_inside(x):
    with torch.autocast("cpu", dtype=torch.float16):
        return torch.relu(l(x)).float()


with torch.no_grad():
    for _ in range(10):
        cold("""with torch.autocast('cpu', dtype=BF):
            tell(another_dtype_inside(x)); l.weight.mul_(1.0625); tell(another_dtype_inside(x))""")
