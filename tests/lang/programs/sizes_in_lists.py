"""Lists of sizes: sliced, joined, handed to reshape; truth of tensors that follow from sizes."""
import torch
from support import seq, show


def flatten_beams(x):
    shape = list(x.shape)
    return torch.reshape(x, [shape[0] * shape[1]] + shape[2:])


def unflatten_beams(x, beams):
    shape = list(x.shape)
    return torch.reshape(x, [shape[0] // beams, beams] + shape[1:])


def rebuilt(x):
    head, tail = list(x.shape)[:1], list(x.shape)[1:]
    return x.reshape(tail + head), (tail + head)[-1]


def added_in_place(x):
    shape = [1]
    shape += list(x.shape)
    shape.append(1)
    return x.reshape(shape)


def told(x):
    ends = torch.arange(x.shape[0]).max() == x.shape[0] - 1
    flag = bool(torch.full((1,), x.shape[1]).sum() > 4)
    return x * 2 if flag and bool(ends) else x - 1, flag


def one_of_each(x):
    """Dimensions of one element, and results that lie as the operands do."""
    y = x.transpose(0, 1)
    return (y * 2 + y.neg()) * y.exp(), torch.cat([torch.tensor([]), y], 0), torch.take_along_dim(x, x.argmax(1, keepdim=True), 1)


for rows, columns in ((2, 4), (2, 4), (4, 4), (4, 6), (6, 3), (2, 3), (4, 6), (8, 2), (6, 3), (2, 1), (1, 4), (4, 6), (8, 5)):
    x = seq(rows, columns)
    show(rebuilt(x), added_in_place(x), told(x), one_of_each(x))
    if rows % 2 == 0:
        show(unflatten_beams(x, 2), flatten_beams(unflatten_beams(x, 2)))
