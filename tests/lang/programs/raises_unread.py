"""Operators that raise for what they are given, though nobody reads their result."""
import torch
from support import seq, show


def element(x, n):
    unread = x[n % 2]
    return x + n


def elements(x, i):
    torch.take(x, i)
    x.index_select(0, i)
    y = x[i]
    return x * 2


def looked_up(table, i):
    ignored = torch.nn.functional.embedding(i, table) + 1
    return table.sum() + i.sum()


def gathered(x, i):
    x.gather(0, i.unsqueeze(1))
    return x - 1


def tried(function, *arguments):
    try:
        show(function(*arguments))
    except (IndexError, RuntimeError) as error:
        print(type(error).__name__, str(error).splitlines()[0])


for function in (elements, looked_up, gathered):
    for step in range(14):
        tried(function, seq(3, 2), torch.tensor([0, 2, 1] if step not in (3, 8, 12) else [0, 3, 1]))
for step in range(14):
    tried(element, seq(1 if step in (4, 7, 12, 13) else 3, 2), step)
