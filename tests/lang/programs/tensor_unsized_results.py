"""Results whose size the data decides: kept, handed out, and looked at in every way, with other sizes on every call."""
import dataclasses
import functools

import torch
from support import seq, show


@dataclasses.dataclass
class Found:
    where: torch.Tensor
    values: torch.Tensor


class Keeper:
    def __init__(self):
        self.last = None
        self.seen = []


keeper = Keeper()


def handed_out(x):
    return x.unique(), torch.nonzero(x > 2), x[x > 3], {"where": torch.where(x > 1)}


def kept(x):
    keeper.last = x[x > 2]
    keeper.seen.append(torch.masked_select(x, x > 1))
    y = x + 1
    return Found(keeper.last, y.masked_select(y > 3)), y * 2


def computed_with(x):
    chosen = x[x > 2]
    return chosen * 2 + chosen.sum(), torch.cat([chosen, x.flatten()]), x.flatten()[:1] - chosen


def shape_read(x):
    chosen = x[x > 2]
    count = chosen.shape[0]
    return x * count, chosen.numel(), len(chosen), chosen.size(0), chosen.dim(), chosen.dtype, chosen.is_contiguous()


def sliced(x):
    chosen = torch.masked_select(x, x > 0)
    return chosen[0:3], chosen[:2], chosen[-1:], chosen[None], chosen[...]


def indexed_with(x):
    rows = torch.nonzero(x[:, 0] > 1).squeeze(1)
    return x[rows], x.index_select(0, rows), x.t()[:, rows]


def past_the_end(x):
    chosen = x[x > 3]
    try:
        return chosen[2]
    except IndexError as error:
        return str(error)


def looped_over(x):
    total = torch.zeros(())
    for value in x[x > 3]:
        total = total + value
    return total, [v * 2 for v in torch.unique(x)[:2]], list(x[x > 4])


def unpacked(x):
    values, counts = torch.unique(x, return_counts=True)
    _, inverse = x.unique(return_inverse=True)
    return counts, inverse, values.max()


def branched_on(x):
    chosen = x[x > 3]
    return x + 1 if len(chosen) else x - 1, chosen is keeper.last, isinstance(chosen, torch.Tensor), chosen if chosen.numel() > 2 else None


def written(x):
    chosen = x[x > 2]
    chosen += 1
    chosen[:1] = 0
    y = x.clone()
    y[y > 3] = 0
    y[:, 0] = torch.bincount(x[:, 0].long().clamp(0, 3), minlength=4)[: x.size(0)].float()[: y.size(0)].sum()
    return chosen, y


def nested(x):
    def inner(v, *rest, **more):
        return (v, rest, more)

    return inner(x[x > 1], torch.argwhere(x), last=x.unique()), functools.partial(torch.add, x[x > 2])(1)


def repeated(x):
    return torch.repeat_interleave(x.flatten()[:3], torch.clamp(x.flatten()[:3], 0, 2).long()), torch.unique_consecutive(x.flatten().round())


def text(x):
    chosen = x[x > 2]
    return f"{chosen}", f"{tuple(chosen.shape)}", str(chosen.unique())


def only_one(x):
    try:
        return torch.masked_select(x, x > 3.5).item() + 1, x + 1
    except RuntimeError as error:
        return type(error).__name__


def only_one_as_float(x):
    try:
        return f"{float(x[x > 3.5]):.3f}", x[x < -3.5].tolist()
    except (RuntimeError, ValueError) as error:
        return str(error)


def elementwise(x):
    chosen = x[x > 1]
    for _ in range(3):
        chosen = torch.relu(chosen * 1.5 + 0.25).tanh()
    return chosen, (-chosen).exp().clone(), 1 - chosen, 2 / (chosen + 3), chosen.sum(), chosen.log() if chosen.numel() else 0


def of_one_size(x):
    rows = x[x[:, 0] > 0]
    positive, halves = rows > 0, rows.half() if rows.numel() > 3 else rows
    twice = rows * rows.sigmoid() - rows.clamp(min=0.5)
    return twice * positive, twice <= rows, rows.maximum(twice) if len(rows) else None, halves, (twice / 2).mean(), rows.square().sum().sqrt()


def of_two_sizes(x):
    small, large = x[x > 3], x[x > -9]
    try:
        return small + large
    except RuntimeError as error:
        return str(error)


def of_other_dtypes(x):
    whole = x.long()
    chosen, flags, near = whole[x > 1], (x > 0)[x < 2], x.double()[x < 3]
    return chosen * 3 - 1, chosen / 2, (chosen + 0.5).sum(), flags + 1, flags.logical_not(), (near * near).tanh(), near.round() == near, chosen.sum() * x


def layouts(x):
    where = torch.nonzero(x > 0)
    turned = x.t()[:, x[:, 0] > -4]
    return (where * 2 + 1).stride() if len(where) > 1 else 0, where - 1, (turned * 2).relu(), (turned + 1).clone(), (turned * 3).contiguous().stride() if turned.size(1) > 1 else 0


def many(x):
    wide = torch.arange(200_003, dtype=torch.float32).sin() * x.sum()
    chosen = wide[wide > x[0, 0] / 100]
    for _ in range(3):
        chosen = torch.relu(chosen * 1.5 + 0.25).tanh() - 0.5
    return chosen.sum().round(), chosen[:5], chosen[-5:], chosen.numel()


def inner_results_kept(x):
    chosen = x[x > 1]
    a = chosen * 2
    keeper.last = a
    b = (a + 1).tanh()
    listed = [b, b * 2]
    return torch.cat([x.flatten(), b]), a * 3, listed, b.sum() + 1


FUNCTIONS = (elementwise, of_one_size, of_two_sizes, of_other_dtypes, layouts, many, inner_results_kept, only_one, only_one_as_float, handed_out, kept, computed_with, shape_read, sliced, indexed_with, past_the_end, looped_over, unpacked, branched_on, written, nested, repeated, text)
for function in FUNCTIONS:
    for step in range(9):
        with torch.no_grad():
            show(function.__name__, function(4 * seq(3, 2, start=(step * 2) % 5 - 2)))
    show(keeper.last, len(keeper.seen))
for step in range(6):
    x = (4 * seq(3, 2, start=step % 3)).requires_grad_()
    out = x[x > 2]
    more = torch.masked_select(x * 2, x.detach() > 3)
    (out.sum() + more.prod()).backward()
    show(x.grad, out.grad_fn is not None, more.requires_grad)


def strides_of(x):
    found = x.nonzero()
    more = found * found
    last = x[:, x[0] > 0] + 1
    return [t.stride() for t in (found, more, -more, (found + 1) * 2, last, last.abs(), found.clone() + 0)]


for step in range(10):
    print(strides_of(torch.tensor([[0.0, 1.0], [0.0, float(step % 4 == 3)]])), strides_of(torch.full((2, 3), float(step % 3 - 1)).t()))
