"""tensor[i] with an index that varies: read, written, handed out, out of range."""

import torch
from support import seq, show


def over_time(x, h):
    for i in range(x.shape[0]):
        h = torch.tanh(h * 0.5 + x[i] * i)
    return h


def read(x, i):
    return x[i] + 1, x[i].sum() * i, x[i][0] + x[-i - 1].relu()


def handed_out(x, i):
    row = x[i]
    return row, row * 2


def written(x, i):
    row = x[i]
    row.add_(1)
    x[i] = row * 2
    return x.clone(), row


def kept(x, i, rows):
    rows.append(x[i].view(-1))
    return rows[-1] + 1


def columns(x, i):
    return x.t()[i] + 1, x[:, i], x[i, :] * i, x[None, i]


x = seq(100, 3)
for h in (seq(3), seq(3, start=2)):
    show(over_time(x, h))
y = seq(4, 3)
rows = []
for i in (0, 1, 2, 1, 3, -1, 2, 5):
    for function in (read, columns):
        try:
            show(*function(y, i))
        except IndexError as error:
            show(str(error))
    try:
        row, double = handed_out(y, i)
        show(row, double, row._base is y, row.storage_offset(), row.data_ptr() == y[i].data_ptr())
        row.mul_(1.5)
        show(y, *written(y, i), kept(y, i, rows))
        rows[0].sub_(1)
    except IndexError as error:
        show(str(error))
show(y, rows)
