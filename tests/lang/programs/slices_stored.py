"""tensor[start:stop] = value, and slices whose bounds are tensors."""

import torch

x = torch.arange(12.0).reshape(6, 2)
kept = torch.zeros(8, 3)


def constant(x, y):
    z = x * 2
    z[1:3] = y
    z[3:] += 1
    z[:-4] = -1.5
    z[4:2] = y[:0]
    z[-2:] = torch.tensor(7)
    z[10:] = y[:0]
    z[:] = z.flip(0)
    return z * 3


def number(x, k):
    z = x.clone()
    z[1:4] = k
    z[k:] = True
    z[:k] -= 2
    return z + 1


def counted(x):
    z = torch.zeros(6, 2)
    for i in range(0, 6, 2):
        z[i:i + 2] = x[i:i + 2] * i
    return z


def into_outside(x, k):
    kept[k:k + 2] = x[:2, :1]
    kept[:1] += x.sum()
    return kept.sum() + x


def integers(x):
    z = torch.zeros(6, dtype=torch.int64)
    z[1:3] = x[0, :2].to(torch.float64) + 0.7
    z[3:5] = 2**40
    flags = torch.zeros(6, dtype=torch.bool)
    flags[2:4] = 5
    return z, flags


def overlapping(x):
    z = x.clone()
    z[1:] = z[:-1].clone()
    w = z.t()
    w[:1] = 9
    return z, w


def gradients(x):
    a = x.clone().requires_grad_()
    z = a * 2
    z[1:3] = a[:2] ** 2
    z[4:] = 0
    z.sum().backward()
    return a.grad


def of_sizes(x):
    n = x.shape[0]
    z = torch.zeros(n + 4)
    z[2:n + 2] = x[:, 0]
    z[n:] = x.shape[1]
    return z


def wrong(x, y):
    z = x.clone()
    try:
        z[1:3] = y
    except RuntimeError as error:
        return str(error), z
    return "no error", z


class Board:
    def __init__(self, n):
        self.data = torch.zeros(n)
        self.log = []

    def __setitem__(self, key, value):
        self.log.append((key.start, key.stop, key.step) if isinstance(key, slice) else key)
        self.data[key] = value

    def __getitem__(self, key):
        return self.data[key]


def own_class(x):
    board = Board(6)
    board[1:3] = x[0, 0] + 4
    board[:2] = 8
    return board.data * 2, board.log, board[2:]


def lists(x):
    parts = [x, x + 1, x + 2]
    parts[1:2] = [x * 5, x * 6]
    parts[:1] = []
    return [part.sum() for part in parts]


def tensor_bounds(x, bounds):
    start, stop = bounds[0], bounds[1]
    return x[start:stop] * 2, x[start:], x[:bounds[1:]] + 1, x[start:stop].shape


def tensor_bounds_inside(x, bounds):
    start, stop = bounds[0], bounds[1]
    columns = slice(bounds[0] % 2, None)
    return x[:, start % 2:] * 2, x.t()[..., start:stop], x[stop:start:1], x[start:, columns], x[None, start:stop, 0], x[start, :stop]


def tensor_bounds_stored(x, bounds):
    z = torch.zeros_like(x)
    for i in range(2):
        z[bounds[i]:bounds[i + 1]] = x[bounds[i]:bounds[i + 1]] * (i + 1)
    return z


def routed(tokens, counts, weights):
    ends = torch.cat([torch.zeros(1, dtype=torch.long), counts.cumsum(0)])
    out = torch.zeros_like(tokens)
    for expert in range(weights.shape[0]):
        part = tokens[ends[expert]:ends[expert + 1]]
        out[ends[expert]:ends[expert + 1]] = part @ weights[expert]
    return out


def huge(x, bound):
    z = x.clone()
    z[bound:] = 7
    z[:, :bound] += 1
    return x[bound:], x[:, :bound] * 2, z


def bad_bound(x, bound):
    try:
        return x[bound:]
    except (TypeError, IndexError, ValueError, RuntimeError) as error:
        return type(error).__name__, str(error)


def show(value):
    if isinstance(value, torch.Tensor):
        return value.tolist()
    if isinstance(value, (list, tuple)):
        return [show(item) for item in value]
    return value


for turn in range(6):
    print("constant", show(constant(x + turn, x[:2])))
    print("number", show(number(x, turn % 4)))
    print("counted", show(counted(x + turn)))
    print("into_outside", show(into_outside(x, turn)), show(kept))
    print("integers", show(integers(x + turn)))
    print("overlapping", show(overlapping(x + turn)))
    print("gradients", show(gradients(x + turn)))
    print("of_sizes", show(of_sizes(torch.ones(3 + turn % 3, 2) + turn)))
    print("wrong", show(wrong(x, x[:2 + turn % 2])))
    print("own_class", show(own_class(x + turn)))
    print("lists", show(lists(x + turn)))
    print("tensor_bounds", show(tensor_bounds(x, torch.tensor([turn % 3, 3 + turn % 2]))))
    print("tensor_bounds_inside", show(tensor_bounds_inside(x + turn, torch.tensor([turn % 3, 3 + turn % 2]))))
    print("tensor_bounds_stored", show(tensor_bounds_stored(x, torch.tensor([0, turn, 6]))))
    print("routed", show(routed(x, torch.tensor([turn % 4, 2, 4 - turn % 4]), torch.ones(3, 2, 2) * torch.arange(1.0, 4)[:, None, None])))
    for bound in (2**70, 2**63, 2**63 - 1, -(2**63) + 1, -(2**65), 1):
        print("huge", show(huge(x + turn, bound)))
    for bound in (torch.tensor(2**64 - 1, dtype=torch.uint64), torch.tensor(True), torch.tensor(1.0), torch.tensor([1, 2]), torch.tensor([[1]]), torch.tensor(-2, dtype=torch.int8)):
        print("bad_bound", show(bad_bound(x, bound)))
