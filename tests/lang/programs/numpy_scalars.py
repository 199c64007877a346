"""NumPy's scalars and its functions of numbers, as constants: beside tensors, by themselves, where NumPy warns or raises."""

import math
import warnings

import numpy as np
import torch

warnings.simplefilter("always")
x = torch.arange(6.0).reshape(2, 3)
ints = torch.arange(6)
scale, half, single = np.sqrt(64), np.float16(0.5), np.float32(0.1)
count, byte, flag = np.int64(3), np.uint8(200), np.bool_(True)


def on_the_right(x):
    return x * scale, x / half, x + single, x - count, x ** np.float64(2), x // np.int32(2), x % count, x > single, x == count


def on_the_left(x):
    return scale * x, single + x, count - x, np.float64(2) / (x + 1), np.int64(2) ** x, single < x, np.float64(3) // (x + 1)


def of_integers(x):
    return x * count, x * byte, x + scale, x // np.int16(2), x << np.int64(1), x & count, x.to(torch.uint8) + byte, x.half() * scale


def in_place(x):
    y = x * 2
    y *= scale
    y -= np.log(10000.0)
    y /= np.float32(3)
    return y


def functions(x):
    return x / np.sqrt(x.shape[-1]), x * np.exp(-1), np.log(np.float32(10)) + x, x - np.floor(2.7) + np.ceil(np.float16(1.5)), x * np.square(count)


def classes(x):
    return x * np.float64(0.1), x + np.int32(7), x * np.float32(np.pi), x + np.float16(1), torch.full((2,), np.float64(3)), np.uint8(7), np.bool_(0)


def sizes(x):
    return x.view(-1, count), x.reshape(np.int64(6)), torch.zeros(count, np.int32(2)), x.sum(np.int64(1)), x[:, np.int64(1)], x[np.int64(0)], list(range(count))


def alone(x):
    a = scale * 2 + count
    b = single * single - half
    c = -count // np.int64(2), +count if flag else 0, abs(count), count ** 2, -single
    return a, b, c, type(a), type(b), count > 2, scale == 8, single < 0.1, f"{scale:.2f} {count} {single!r}", str(half), int(scale), float(single), math.sqrt(scale)


def wraps(x):
    return x + (byte + np.uint8(100)), np.int8(100) * np.int8(2), -byte


def divides(x):
    return x + np.float64(1) / (scale - 8), count // (count - 3), np.float32(1e30) * np.float32(1e30), np.exp(np.float32(100)), np.sqrt(-1.0), np.log(0)


def raises(x):
    with np.errstate(all="raise"):
        return x * (np.float64(1e300) * np.float64(1e300))


def does_not_fit(x):
    return x + (byte + 300)


def unsigned(x):
    return x * (byte - np.uint8(201))


def signs(x):
    return torch.copysign(x, zero), x * zero, 1 / (x * 0 + zero)


class Scaled(torch.nn.Module):
    def __init__(self, dimension):
        super().__init__()
        self.dimension = np.int64(dimension)
        self.scale = 1 / np.sqrt(self.dimension)

    def forward(self, x):
        return (x * self.scale).view(-1, self.dimension), x / np.sqrt(self.dimension)


def show(function, x):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            print(getattr(function, "__name__", "module"), function(x))
        except Exception as error:
            print(function.__name__, type(error).__name__, error)
        for one in caught:
            print(one.category.__name__, one.message)


with torch.no_grad():
    for function in (on_the_right, on_the_left, in_place, functions, classes, sizes, alone, wraps, divides, raises, does_not_fit, unsigned, Scaled(3)):
        for _ in range(4):
            show(function, x)
    for _ in range(3):
        show(of_integers, ints)
    for zero in (np.float64(0.0), np.float64(-0.0), np.float64(0.0), np.float32(-0.0), np.float64("nan"), np.float64("nan"), np.float64(-0.0)):
        show(signs, x)
    for scale in (np.float64(2), np.float64(2), np.float32(2), 2.0, np.int64(2), np.float64(3), True, np.bool_(True), np.complex64(1j), np.longdouble(2)):
        for _ in range(2):
            show(on_the_right, x)
            show(in_place, x)
            print(type(scale))
    scale = np.float64(8)
    sqrt = np.sqrt
    for np.sqrt in (sqrt, np.cbrt, np.exp, sqrt, lambda number: number * 2, sqrt):
        show(functions, x)
        show(functions, x[:, :2])
