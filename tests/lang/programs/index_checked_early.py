"""Caches that are written at moving places, layer after layer: an index out of range raises where it does under python, and what
was written before that was written once."""
import torch


class Layer:
    def __init__(self, size):
        self.keys, self.values = torch.zeros(1, size, 2), torch.zeros(1, size, 2)
        self.length = torch.tensor(0)

    def update(self, k, v):
        places = torch.arange(k.shape[1]) + self.length
        self.length.add_(k.shape[1])
        self.keys.index_copy_(1, places, k)
        self.values.index_copy_(1, places, v)
        return self.keys, self.values


class Lazy(Layer):
    """The memory is made in the first call."""

    def __init__(self, size):
        super().__init__(size)
        self.size, self.keys = size, None

    def update(self, k, v):
        if self.keys is None:
            self.keys = torch.zeros(1, self.size, 2)
            self.values = torch.zeros(1, self.size, 2)
        return super().update(k, v)


def run(x, layers):
    for layer in layers:
        k, v = layer.update(x, x * 2)
        x = x + k.sum() + v.mean()
    return x


def gathers(x, table, places, log):
    log.add_(1)
    return table.gather(0, places) + x.index_select(0, places[:, 0])


def moved(x, table, log):
    """The index is written after the first write, or read from what was written."""
    places = torch.zeros(2, dtype=torch.long)
    log.add_(1)
    places.add_(log.long()[:2])
    return table.index_select(0, places) + x


def viewed(x, table, counter):
    """The index is a view of what is written in between."""
    places = counter.view(1)
    counter.add_(1)
    table.index_copy_(0, places, x)
    return table.sum() + places


def own_index(x, table, places):
    places.add_(1)
    return table.index_select(0, places) + x


def scattered(x, table, places, log):
    log.mul_(2)
    table.scatter_(0, places, x)
    return torch.nn.functional.embedding(places, table)


def attempt(function, *args):
    try:
        return function(*args)
    except (IndexError, RuntimeError) as error:
        return type(error).__name__


for kind in (Layer, Lazy):
    for turn in range(3):
        layers = [kind(5), kind(5), kind(4 + turn)]
        for step in range(7):
            x = torch.full((1, 1 + step % 2, 2), float(step))
            print(kind.__name__, turn, step, attempt(run, x, layers), [layer.length.item() for layer in layers])
            print([None if layer.keys is None else (layer.keys.tolist(), layer.values[0].tolist(), layer.keys._version) for layer in layers])
for step in range(12):
    x, table, log = torch.ones(2, 2) * step, torch.arange(8.0).reshape(4, 2), torch.zeros(2)
    places = torch.tensor([[step % 5, 1], [2, step % 3]]) - (step == 7)
    print(step, attempt(gathers, x, table, places, log), log)
    log = torch.full((2,), float(step % 6))
    print(step, attempt(moved, x, table, log), log)
    counter = torch.tensor(step % 5)
    print(step, attempt(viewed, x[:1], table, counter), counter, table)
    own = torch.tensor([step % 4, step % 2])
    print(step, attempt(own_index, x, table, own), own)
    log = torch.ones(2)
    print(step, attempt(scattered, x, table, places, log), log, table)
