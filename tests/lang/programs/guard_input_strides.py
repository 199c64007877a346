import torch
from support import seq, show


def model(x):
    y = x + 1
    return y * 2, x.stride(), x.is_contiguous(), x.reshape(-1)


base = seq(4, 6)
for view in (base[:3, :4], base.t()[:3, :4], base[:3, :4].contiguous(), base[:3, ::1][:, :4], base[::1, ::2][:3], base[:1].expand(3, 6)):
    for step in range(3):
        show(*model(view + 0 if step == 2 else view))
