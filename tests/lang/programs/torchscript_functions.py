"""Functions that torch.jit.script and torch.jit.trace compiled, called by functions that are recorded."""
import math
import warnings

import torch
from support import seq, show


def inner(x, factor: int):
    return x * factor


@torch.jit.script
def scaled(x: torch.Tensor, factor: int) -> torch.Tensor:
    return x / torch.sqrt(torch.tensor(x.size(-1), dtype=torch.float) * factor)


@torch.jit.script
def powers(x: torch.Tensor, exponent: int):
    return x * 2 ** exponent


@torch.jit.script
def asks(x: torch.Tensor):
    if torch.jit.is_scripting():
        return x + 100
    return x - 100


@torch.jit.script
def rounds(x: torch.Tensor, number: float):
    return x * round(number)


@torch.jit.script
def halves(x: torch.Tensor, number: int):
    if x.size(0) != 3:
        return inner(x, number // 2)
    return x + (number - 1) / 2


@torch.jit.script
def prints(x: torch.Tensor):
    print("in a script")
    return x + 1


@torch.jit.script
def warns(x: torch.Tensor):
    warnings.warn("from a script")
    return x + 1


@torch.jit.script
def raises(x: torch.Tensor, number: int):
    if number > 2:
        raise ValueError("too large")
    return x * number


@torch.jit.script
def defaults(x: torch.Tensor, number: float = 2):
    return x // number


@torch.jit.script
def floors(x: torch.Tensor, number: float):
    return x + number // 2


@torch.jit.script
def several(x: torch.Tensor, y: torch.Tensor):
    parts = torch.cat([x, y]).chunk(2)
    return parts[0], (parts[1] * 2, x.size())


@torch.jit.script
def writes(x: torch.Tensor):
    x.add_(1)
    return x


@torch.jit.script
def decides(x: torch.Tensor):
    if bool(x.sum() > 3):
        return x + 1
    return x - 1


@torch.jit.script
def counts(x: torch.Tensor, n: int):
    y = x
    for i in range(n):
        y = y + i * math.pi
    return y


@torch.jit.script
class Pair:
    def __init__(self, a: int):
        self.a = a


@torch.jit.script
def objects(x: torch.Tensor):
    pair = Pair(3)
    return x * pair.a


traced = torch.jit.trace(lambda x: x * 2 if x[0] > 0 else x * 3, (torch.ones(3),), check_trace=False)


class Module(torch.nn.Module):
    def forward(self, x):
        return x * 2 if torch.jit.is_scripting() else x * 3


scripted_module = torch.jit.script(Module())


def model(x, step):
    a = scaled(x, 2) + powers(torch.arange(3), 3) + asks(x) + rounds(x, 2.5) + halves(x, 7) + halves(x[:2], 7).sum()
    b = defaults(x) + floors(x, 3) + floors(x, 3.5) + objects(x) + counts(x, 2) + traced(x - 9) + scripted_module(x)
    c, (d, size) = several(x, a)
    return a, powers(torch.arange(3), 3).dtype, b, writes(x * 1), decides(x), c, d, size, raises(x, 2)


for around in torch.no_grad, torch.enable_grad:
    for step in range(5):
        with around():
            for value in model(seq(3, start=step), step):
                show(value) if isinstance(value, torch.Tensor) else print(value)


def learns(x, w):
    return (scaled(x, 2) * w).sum() + halves(w, 7).sum()


for step in range(5):
    x, w = seq(3, start=step), torch.ones(3, requires_grad=True)
    learns(x, w).backward()
    show(w.grad)


def more(x, number):
    return prints(x) * number + warns(x)


for step in range(4):
    show(more(seq(3, start=step), 2))


def limits(x, number):
    return raises(x * 2, number) + 1


for step in range(6):
    try:
        show(limits(seq(3, start=step), step))
    except torch.jit.Error as error:
        print("Error", str(error).strip().splitlines()[-1])


def wrong(x, number):
    return scaled(x + 1, number)


for step in range(6):
    try:
        show(wrong(seq(3, start=step), 2.5 if step == 4 else 2))
    except RuntimeError as error:
        print(type(error).__name__, str(error).splitlines()[0])


def sizes(x):
    return scaled(x, 3) + halves(x, 5)


for size in (2, 3, 4, 5, 6, 3):
    show(sizes(seq(size, size)))

functions = [scaled, scaled]


def chosen(x, at):
    return functions[at](x, 3)


for step in range(6):
    if step == 3:
        functions[1] = torch.jit.script(inner)
    show(chosen(seq(3, start=step), 1))
