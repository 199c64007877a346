import torch
from support import seq, show


def model(x, w):
    y = x @ w
    y = y * 1.5 + 0.1
    return y.dtype, torch.softmax(y, -1).float().sum(-1)


for dtype in (torch.bfloat16, torch.bfloat16, torch.float16, torch.bfloat16, torch.float32):
    for step in range(2):
        d, y = model(seq(2, 4, dtype=dtype), seq(4, 3, dtype=dtype))
        print(d, [round(v, 1) for v in y.tolist()])
