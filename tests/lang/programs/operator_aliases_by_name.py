# Operators called by name: lift_fresh, which torch.tensor uses for data of its own, and those whose results hide that they are views.
import torch

torch.set_num_threads(1)


def lifted(x):
    return torch.ops.aten.lift_fresh(x) * 2


def lifted_itself(x):
    return torch.ops.aten.lift_fresh(x)


def unsafe_view(x):
    y = torch.ops.aten._unsafe_view(x, x.shape)
    y.add_(1)
    return y


def chunked(x):
    with torch.no_grad():
        a, b = torch.unsafe_chunk(x, 2)
        a.add_(1)
    return b


def split_inside(x):
    y = x + 1
    a, b = torch.unsafe_split(y, 2)
    a.mul_(3)
    return y, b


for turn in range(6):
    x = torch.full((4,), float(turn))
    print(lifted(x).tolist(), lifted_itself(x) is x)
    unsafe_view(x)
    print(x.tolist(), x._version)
    chunked(x)
    print(x.tolist(), x._version)
    y, b = split_inside(x)
    print(y.tolist(), y._version, b.tolist())

w = torch.ones(4, requires_grad=True)
for turn in range(6):
    x = torch.ones(4)
    y = w * x
    chunked(x)
    y.sum().backward()
    print(w.grad.tolist(), x._version)
with torch.inference_mode():
    for turn in range(5):
        print(lifted(torch.full((2,), float(turn))).tolist())
