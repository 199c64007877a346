"""Sizes of a tensor from outside that the function itself has given other sizes, read in every way there is."""

import random

import torch

FORMS = {
    "swapaxes_": lambda x: x.swapaxes_(0, 1),
    "t_": lambda x: x.t_(),
    "transpose_": lambda x: x.transpose_(1, 0),
    "unsqueeze_": lambda x: x.unsqueeze_(0),
    "unsqueeze_1": lambda x: x.unsqueeze_(-1),
    "squeeze_": lambda x: x.unsqueeze_(0).transpose_(0, 1).squeeze_(1).t_(),
    "resize_": lambda x: x.resize_(3, 2),
    "as_strided_": lambda x: x.as_strided_((2, 2), (1, 2)),
    "data": lambda x: setattr(x, "data", torch.ones(x.shape[1] + 1, x.shape[0])),
    "set_": lambda x: x.set_(torch.ones(x.shape[1] + 1, x.shape[0])),
}
READS = {
    "shape": lambda x: tuple(x.shape),
    "size": lambda x: (x.size(0), x.size(-1)),
    "len": len,
    "numel": lambda x: x.numel(),
    "stride": lambda x: x.stride(),
    "rows": lambda x: [row.sum() for row in x],
    "unbind": lambda x: len(x.unbind(0)),
    "chunk": lambda x: [c.shape for c in x.chunk(2, -1)],
    "split": lambda x: len(x.split(1)),
    "zeros": lambda x: torch.zeros(x.shape) + x,
    "new": lambda x: x.new_ones(x.shape[0]).sum(),
    "view": lambda x: x.contiguous().view(x.shape[0], -1) * 2,
    "reshape": lambda x: x.reshape(-1, x.shape[-1]).sum(0),
    "expand": lambda x: x.expand(int(x.argmin() > 0) + 2, *x.shape).mean(0),
    "repeat": lambda x: x.repeat(int(x.flatten()[:3].argmin()) + 1, *[1] * x.dim()),
    "range": lambda x: torch.arange(x.shape[0]) + sum(range(x.size(-1))),
    "index": lambda x: x[x.shape[0] - 1],
    "slice": lambda x: x[:, : x.shape[1] // 2 + 1],
    "mask": lambda x: x[x > 0].shape,
    "less": lambda x: x + 1 if x.shape[0] < x.shape[-1] else x - 1,
    "like": lambda x: torch.randn_like(x),
    "rand": lambda x: torch.rand(x.shape),
    "matmul": lambda x: (x.flatten(0, -2) @ x.flatten(0, -2).mT).sum(),
    "nbytes": lambda x: x.nbytes,
    "iter": lambda x: [tuple(r.shape) for r in iter(x)],
    "tuple": lambda x: [n * 2 for n in (*x.shape, x.ndim)],
    "format": lambda x: f"{x.shape} {x.size()[0]}",
    "numpy": lambda x: x.numpy().shape,
    "list": lambda x: x.tolist(),
    "ones_at": lambda x: torch.ones(int(x.flatten()[:2].argmax()) + 1, x.shape[0]),
}


class Box:
    pass


def run(x, form, read):
    before = x.shape
    y = x * 2
    form(x)
    z = read(x)
    return before, y.sum(), z, tuple(x.shape), x.sum() + y.sum()


def behind_a_break(box, form, read):
    random.random()
    form(box.x)
    dict(a=random.random())
    return read(box.x), read(box.x + 1)


def made(size):
    return torch.randn(size).mul(64).round().div(64)  # sums without rounding


def show(value):
    if isinstance(value, torch.Tensor):
        return tuple(value.shape), [round(v, 3) for v in value.flatten().tolist()]
    if isinstance(value, (tuple, list)):
        return [show(v) for v in value]
    return round(value, 3) if isinstance(value, float) else value


def attempt(function, *arguments):
    try:
        return show(function(*arguments))
    except Exception as error:
        return type(error), str(error).split("\n")[0]


for read_name, read in READS.items():
    for form_name, form in FORMS.items():
        for k, size in enumerate([(2, 3), (2, 4), (2, 5), (3, 5), (2, 3), (5, 2), (6, 7)]):
            torch.manual_seed(k)
            box = Box()
            box.x = made(size)
            print(read_name, form_name, attempt(run, made(size), form, read), attempt(behind_a_break, box, form, read))
