import torch
from support import seq, show


def model(x, w, enabled):
    with torch.autocast("cpu", dtype=torch.bfloat16, enabled=enabled):
        a = x @ w
        b = torch.softmax(a, -1)
        with torch.autocast("cpu", enabled=False):
            c = x @ w
    return a.dtype, b.dtype, c.dtype, c


for step in range(8):
    *dtypes, c = model(seq(2, 3), seq(3, 2), step % 4 < 2)
    print(*dtypes)
    show(c)
