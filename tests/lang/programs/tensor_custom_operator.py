import torch
from support import seq, show


@torch.library.custom_op("langtest::shift", mutates_args=())
def shift(x: torch.Tensor, by: float) -> torch.Tensor:
    return x + by


@torch.library.custom_op("langtest::bump", mutates_args={"x"})
def bump(x: torch.Tensor) -> None:
    x.add_(1)


def model(x):
    y = shift(x * 2, 0.5)
    bump(y)
    return y - 1, torch.ops.langtest.shift(y, 1.0), torch.ops.aten.relu(y), torch.ops.aten.add.Tensor(x, y, alpha=2)


for step in range(5):
    show(*model(seq(3, start=step % 2)))
