"""Python code that the dispatcher calls: kernels of a program's own operators, wrapper tensors, dispatch modes. What they write stays written."""
import torch
from support import seq, show
from torch.utils._python_dispatch import TorchDispatchMode

side = torch.zeros(1)


class Wrapped(torch.Tensor):
    @staticmethod
    def __new__(cls, inner):
        made = torch.Tensor._make_wrapper_subclass(cls, inner.shape, dtype=inner.dtype)
        made.inner = inner
        return made

    @classmethod
    def __torch_dispatch__(cls, function, types, args=(), kwargs=None):
        side.add_(1)
        result = function(*[value.inner if isinstance(value, Wrapped) else value for value in args])
        result.add_(100)
        return Wrapped(result)


class Counting(TorchDispatchMode):
    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        side.add_(1)
        return function(*args, **(kwargs or {}))


@torch.library.custom_op("dynrun_test::add_and_sum", mutates_args=("x",))
def add_and_sum(x: torch.Tensor, f: float) -> int:
    x.add_(f)
    return int(x.sum())


@torch.library.custom_op("dynrun_test::add_to", mutates_args=("x",))
def add_to(x: torch.Tensor, f: float) -> None:
    x.add_(f)


@torch.library.custom_op("dynrun_test::add_and_double", mutates_args=("x",))
def add_and_double(x: torch.Tensor, f: float) -> torch.Tensor:
    x.add_(f)
    return x * 2


library = torch.library.Library("dynrun_lib", "DEF")
library.define("shift(Tensor(a!) x, float n) -> Tensor")


def shift(x, n):
    y = x * 1
    y.add_(n)
    y.unsqueeze_(0)
    x.add_(n)
    return y * 2


library.impl("shift", shift, "CPU")

for step in range(6):
    show("wrapped", (Wrapped(seq(2, start=step)) * 2).inner, side)
for step in range(6):
    with Counting():
        result = seq(2, start=step) * 2
    show("mode", result, side)
for operator in (add_and_sum, add_and_sum, add_to, add_and_double):
    for step in range(6):
        x = torch.zeros(2)
        operator(x, 1.0 + step)
        show(operator._name, x)
for step in range(6):
    x = torch.zeros(2)
    show("shift", torch.ops.dynrun_lib.shift(x, 1.0 + step), x)
