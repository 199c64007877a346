import dataclasses
import torch
from support import seq, show


@dataclasses.dataclass
class Op:
    name: str
    args: tuple = ()


def apply(x, op):
    match op:
        case {"mul": factor, **rest}:
            return x * factor + len(rest)
        case Op("add", (value,)):
            return x + value
        case Op(name="neg"):
            return -x
        case ["chain", *ops]:
            for inner in ops:
                x = apply(x, inner)
            return x
        case int(n) | float(n) if n > 1:
            return x * n
        case torch.Tensor():
            return x * op
        case str() as name:
            return getattr(x, name)()
        case _:
            return x


ops = [{"mul": 2}, {"mul": 3, "more": 1}, Op("add", (1.5,)), Op("neg"), ["chain", "sin", 2, Op("neg")], 3, 0.5, seq(2, start=4), "cos", None]
for turn in range(3):
    for op in ops:
        show(apply(seq(2, start=turn), op))
