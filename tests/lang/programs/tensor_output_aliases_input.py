import torch
from support import seq, show


def model(x):
    return x, x[:], x.view(-1), x.detach(), x.contiguous(), x.to(torch.float32), x + 0


for step in range(6):
    x = seq(2, 2, start=step % 2)
    out = model(x)
    print([o is x for o in out], [o.data_ptr() == x.data_ptr() for o in out], [o._is_view() for o in out])
    out[2][0] = 5
    show(x, *out)
