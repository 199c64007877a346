import torch
from support import seq, show


def model(x):
    y = x.expand(2, 3) if x.dim() == 1 else x
    return y.untyped_storage().data_ptr() == x.untyped_storage().data_ptr(), y.contiguous(), x.untyped_storage().nbytes(), y.clone().is_set_to(y)


for step in range(5):
    show(*model(seq(3, start=step % 2)))
