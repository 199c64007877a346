"""Lists in which a number that follows from tensor data stands beside one that varies, given to what looks into them."""
import torch
from support import seq, show


def made(x, n):
    k = (x > 0).long().sum().item() % 4
    return torch.as_tensor([k, n]), torch.tensor((n, k)), torch.tensor([[k, n], [n, k]]).float().mean()


def sized(x, n):
    k = (x > 0).long().sum().item() % 3 + 1
    return torch.zeros([k, n]).shape, torch.ones((n, k)).sum(), x.new_full([n, k], 2.0), x.expand([k, n, 3]).shape, x[:1].repeat([n, k])


def moved(x, n):
    k = int(x.argmax())
    numbers = [n, k, n + 1]
    joined = numbers[:2] + [k] + numbers[1:]
    return joined, joined[::-1], tuple(joined), sum(joined), max(joined), torch.tensor(joined[1:])


def indexed(x, n):
    k = int(x.argmax()) % 3
    return x[:, [k, n % 3]], x.flip([0]), x.sum([0, 1]), x.roll([k, n], [0, 1]), x.index_select(1, torch.tensor([n % 3, k]))


for function in (made, sized, moved, indexed):
    for step in range(12):
        x = seq(1, 3, start=step % 3 * 2 - 2)
        try:
            show(function.__name__, function(x, step % 5 + 1))
        except Exception as error:
            show(function.__name__, type(error).__name__)
