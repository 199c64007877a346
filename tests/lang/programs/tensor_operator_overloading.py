import torch
from support import seq, show


class Vec:
    def __init__(self, data):
        self.data = data

    def __add__(self, other):
        return Vec(self.data + (other.data if isinstance(other, Vec) else other))

    __radd__ = __add__

    def __mul__(self, k):
        return NotImplemented if isinstance(k, dict) else Vec(self.data * k)

    def __matmul__(self, other):
        return self.data @ other.data

    def __neg__(self):
        return Vec(-self.data)

    def __iadd__(self, other):
        self.data.add_(other)
        return self

    def __eq__(self, other):
        return bool((self.data == other.data).all())

    def __lt__(self, other):
        return self.data.sum() < other.data.sum()

    def __hash__(self):
        return 1

    def __bool__(self):
        return self.data.numel() > 0

    def __getitem__(self, i):
        return self.data[i]

    def __call__(self, x):
        return self.data * x

    def __index__(self):
        return 1

    def __format__(self, spec):
        return f"Vec[{spec}]"


def model(x):
    v, w = Vec(x), Vec(x * 2)
    u = 1 + v + w * 3
    u += 1
    try:
        v * {}
    except TypeError as error:
        message = str(error)
    return u.data, v @ w, (-v).data, v == Vec(x + 0), v < w, v != w, bool(v), v[0], u(2), [10, 20][v], f"{v:abc}", message, {v: 1}[Vec(x)]


for step in range(5):
    show(*model(seq(3, start=step % 2)))
