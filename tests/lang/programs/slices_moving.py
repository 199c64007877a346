"""tensor[i:i + n] and narrow() at places that each call computes, beside the ends of the tensor; what is written there."""

import torch

x = torch.arange(40.0).reshape(4, 10)
kept = torch.zeros(4, 10)


def window(k):
    return x[:, k:k + 3] * 2


def strides(k):
    return x[1:3, 2 * k:2 * (k + 1)].t() + x[k - 1 + 1:k + 2, -3:].sum()


def computed(k):
    y = torch.relu_(x * 2 - 30)
    z = y[:, k:k + 2]
    y += 1
    return z * 2, y.T[k:k + 4].sum(1), z


def alias(k):
    view = x[:, k:k + 2]
    return view, view._base is x, view.storage_offset(), view.numel() and view.data_ptr() - x.data_ptr()


def nothing(k):
    return x[:, k:k] * 2, x[k + 1:k + 1].shape


def backwards(k):
    return x[:, k + 3:k], x[:, k:k - 2], x[:, -k:-k + 2]


def whole(k):
    return x[k:k + 4] + 1, x[:, k:k + 10]


def narrowed(k):
    return x.narrow(1, k, 3) + 1, x.narrow(0, -k, 1), torch.narrow(x, 1, k, 2).sum()


def stored(k):
    kept[:, k:k + 2] = k
    kept[1:3, k + 1:k + 4] += 0.5
    view = kept[:, k:k + 3]
    view.mul_(2)
    return kept.sum(), view.clone()


def only_stored(k):
    kept[:, k:k + 2] *= 0.5


def accumulated(k):
    total = torch.zeros(4, 6)
    total[:, k:k + 2] = x[:, k:k + 2]
    total[:, k:k + 3] += x[:, k + 1:k + 4]
    return total


def step(k):
    return x[:, k:k + 6:2], x[:, k:k + 6:k + 1]


def rest(k):
    return x[:, k:] * 2, x[k + 1:], x[:, k:9 - k].sum(), kept[:, k + 1:] + x[:, k + 1:]


def sliding(width):
    found = []
    for i in range(0, 2):
        for k in range(0, 10 - width + 1, 2):
            found.append(x[2 * i:2 * i + 2, k:k + width].mean(1))
    return torch.stack(found)


def filled(buffer, values, k):
    buffer[:k] = values[:k]
    buffer[k:].fill_(-1)
    return buffer.view(2, -1)[:, k // 2:]


def raises_behind(buffer, k):
    """What is written at a size that never was is there once when an operator behind it raises."""
    buffer[:k] += 1
    return buffer[:k].view(2, -1), buffer.view(4, -1)


def added_wrongly(buffer, k):
    buffer[:k] += 1
    return buffer[:k] + x[0, :4 if k > 6 else k]


def show(function, *args):
    try:
        print(function.__name__, args[-1], function(*args))
    except Exception as error:
        print(function.__name__, args[-1], type(error).__name__, error)


for function in (window, strides, computed, alias, nothing, backwards, whole, narrowed, stored, only_stored, accumulated, step, rest):
    for k in (1, 2, 3, 1, 4, 0, 3, 6, 2, 8, 9, 12, -1, 5):
        show(function, k)
    print(kept)
for width in (3, 4, 5, 3, 6):
    print(sliding(width))
with torch.no_grad():
    for k in (2, 4, 6, 2, 8, 5, 4, 7, 12, 0):
        show(filled, torch.zeros(8), torch.arange(8.0), k)
    for function in (raises_behind, added_wrongly):
        buffer = torch.zeros(8)
        for k in (2, 4, 6, 5, 3, 4, 8, 5, 7, 1):
            show(function, buffer, k)
            print(buffer, buffer._version)
