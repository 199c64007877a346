"""Operators whose results share their argument's memory though nothing about them says so: writes go through."""
import torch
from support import seq, show


def written(make):
    def function(x, k):
        y = x * 2
        result = make(y)
        first = result[0] if isinstance(result, (list, tuple)) else result
        first.mul_(k)
        return y + 1, first.sum()

    return function


MAKERS = {
    "unsafe_split": lambda y: y.unsafe_split(2),
    "unsafe_split_with_sizes": lambda y: y.unsafe_split_with_sizes([1, 3]),
    "unsafe_chunk": lambda y: y.unsafe_chunk(2),
    "cartesian_prod": lambda y: torch.cartesian_prod(y[:, 0]),
    "conj_physical": lambda y: torch.conj_physical(y),
    "sum_to_size": lambda y: y.sum_to_size(4, 3),
    "sum_to_smaller": lambda y: y.sum_to_size(1, 3),
    "unsafe_view": lambda y: torch.ops.aten._unsafe_view(y, [12]),
    "atleast": lambda y: torch.atleast_2d(y),
    "broadcast": lambda y: torch.broadcast_tensors(y),
    "meshgrid": lambda y: torch.meshgrid(y[0], indexing="ij"),
    "dropout": lambda y: torch.nn.functional.dropout(y, 0.5, False),
    "reshape": lambda y: y.reshape(12),
    "contiguous": lambda y: y.contiguous(),
    "to": lambda y: y.to(torch.float32),
}
for name, make in MAKERS.items():
    function = written(make)
    for turn in range(6):
        print(name, end=" ")
        show(*function(seq(4, 3, start=turn), turn + 1.5))
