import torch
from torch import nn
from support import fixed, seq, show

layer = fixed(nn.Linear(4, 4))


def part(x):
    with torch.autocast("cpu", dtype=torch.bfloat16):
        y = layer(x)
        with torch.autocast("cpu", enabled=False):
            z = layer(y.float())
        return y.dtype, layer(z).float(), torch.is_autocast_enabled("cpu")


def left_inside(x, values):
    with torch.autocast("cpu", dtype=torch.bfloat16):
        y = layer(x)
        values.sort(key=lambda v: bool(v > 0))
        return (y @ y.t()).dtype, y.float()


@torch.autocast("cpu", dtype=torch.bfloat16)
def decorated(x):
    return layer(x).dtype, x @ x.t()


def marked(x):
    with torch.profiler.record_function("part") as mark:
        y = layer(x)
        if y.sum() > 1000:
            return y
        y = y * 2
    return y, type(mark).__name__


for step in range(6):
    if step == 3:
        with torch.no_grad():
            layer.weight.mul_(2)
    with torch.no_grad():
        dtype, value, on = part(seq(2, 4, start=step))
        print(dtype, on, torch.is_autocast_enabled("cpu"), [round(v, 1) for v in value.flatten().tolist()][:2])
        dtype, value = left_inside(seq(2, 4, start=step), [seq(1), seq(1, start=2)])
        print(dtype, torch.is_autocast_enabled("cpu"), [round(v, 1) for v in value.flatten().tolist()][:2])
        print(decorated(seq(2, 4, start=step))[0], torch.is_autocast_enabled("cpu"))
        y, name = marked(seq(2, 4, start=step))
        show(y, name)
