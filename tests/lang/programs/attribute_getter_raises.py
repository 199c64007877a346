"""Properties and descriptors that raise AttributeError: the class's __getattr__ is asked then."""
import torch


class Missing:
    def __get__(self, owner, kind):
        return self.nothing


class Asks:
    forward = Missing()

    def __init__(self):
        self.asked = []

    @property
    def scale(self):
        return self._scale

    @property
    def fails(self):
        raise ValueError("not an AttributeError")

    def __getattr__(self, name):
        self.asked.append(name)
        if name == "forward":
            return lambda x: x + 1
        if name == "scale":
            return 3.0
        raise AttributeError(f"no {name}")


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = torch.nn.Linear(2, 2)

    @property
    def weight(self):
        return self.inner.weight

    @property
    def half(self):
        return self.unknown / 2

    def __getattr__(self, name):
        return 4.0 if name == "half" else super().__getattr__(name)

    def forward(self, x):
        return (x @ self.weight * 0 + x) * self.half


class Plain(torch.nn.Module):
    @property
    def broken(self):
        return self.unknown

    @property
    def device(self):
        return next(self.parameters()).device

    def forward(self, x):
        return (x.to(self.device) if list(self.parameters()) else x) * self.broken


def asks(x, other):
    y = other.forward(x * 2) * other.scale
    try:
        return y * other.fails
    except ValueError as error:
        return y + len(str(error))


def numbers(other):
    return other.scale + (other.missing if hasattr(other, "missing") else 1)


torch.manual_seed(0)
other, model, plain = Asks(), Model(), Plain()
for turn in range(8):
    x = torch.ones(2) * turn
    print(asks(x, other).tolist(), numbers(other), other.asked[-4:])
    if turn == 4:
        other._scale = 2.0
    print(model(x).tolist())
    try:
        print(plain(x))
    except AttributeError as error:
        print("AttributeError", error)
traced = torch.jit.trace(torch.nn.Linear(2, 3), torch.ones(1, 2))
for turn in range(6):
    print(tuple(traced(torch.ones(turn + 1, 2)).shape))
