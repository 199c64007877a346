import enum
import typing
import torch
from support import seq, show


class Kind(enum.Enum):
    SIN = "sin"
    COS = "cos"


class Flags(enum.IntFlag):
    A = 1
    B = 2


T = typing.TypeVar("T")


class Box(typing.Generic[T]):
    def __init__(self, value: T):
        self.value = value


def model(x, kind: Kind, flags: Flags):
    y = getattr(torch, kind.value)(x)
    if kind is Kind.SIN and Flags.A in flags:
        y = y * 2
    return Box[torch.Tensor](y + int(flags)).value, kind.name, typing.cast(int, 3)


for step in range(8):
    show(*model(seq(2, start=step % 2), list(Kind)[step % 2], Flags(step % 4)))
