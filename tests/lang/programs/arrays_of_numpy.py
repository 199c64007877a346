"""Arrays of tensors and arithmetic on them: what they hold, whose memory they show, and NumPy's warnings."""
import math
import warnings

import numpy as np
import torch

warnings.simplefilter("always")


def there_and_back(x):
    x = torch.relu(x * 1.5).tanh()
    x = torch.from_numpy(x.numpy() * 2)
    return (x - 0.25).sin()


def both_ways(x):
    a = (x + 1).numpy()
    return torch.from_numpy(3 - a) + torch.from_numpy(a + 0.125) * torch.from_numpy(2.5 * a - 1)


def shows_later_writes(x):
    y = x * 2
    array = y.numpy()
    shifted = array + 1
    y.add_(5)
    return y, array, shifted, torch.from_numpy(shifted.copy()) * 2


def keeps_the_array(x):
    array = (x + 1).numpy() * 2
    back = torch.from_numpy(array)
    back += 1
    return back, array, array is not None


def escapes(x, kept):
    doubled = x.numpy() * 2
    kept.append(doubled)
    kept.append(x.numpy())
    return (x + 1).sum()


def describes(x):
    a = (x * 3).numpy() - 1
    return a.dtype, a.shape, a.flags.owndata, a.flags.writeable, type(a).__name__, a.base is None, float(a[0, 0])


def printed(x):
    print(np.round((x + 1).numpy() * 2, 3).tolist())
    return x * 2


def texts(x):
    a = x.numpy() * 2
    b = (x + 1).numpy()
    print(a, [b], f"{a} {b!r}", "%s" % a, str(b), "{}".format(a), (a, x.sum()))
    return abs(a), isinstance(a, np.ndarray), len(a), a is b, -a


def branches(x):
    a = x.numpy() * 2
    return x + 1 if a.sum() > 0 else x - 1


def by_number(x, n):
    return torch.from_numpy(x.numpy() * n).relu() + torch.from_numpy(n - x.numpy())


def in_place(x):
    y = torch.from_numpy((x + 1).numpy() * 2)
    y.mul_(3)
    view = y[0]
    view.add_(1)
    return y, view, y.is_leaf, y.requires_grad, y._version


def show(*values):
    for value in values:
        if isinstance(value, torch.Tensor):
            value = [round(one, 4) for one in value.flatten().tolist()]
        elif isinstance(value, np.ndarray):
            value = value.dtype, [round(one, 4) for one in value.astype(float).flatten().tolist()]
        print("  ", value)


for dtype in (torch.float32, torch.float64):
    x = (torch.arange(12, dtype=dtype) / 4 - 1).reshape(3, 4)
    for function in (there_and_back, both_ways, shows_later_writes, keeps_the_array, describes, printed, texts, branches, in_place):
        print(function.__name__)
        for turn in range(5):
            result = function(x + turn)
            show(*(result if isinstance(result, tuple) else (result,)))
    for turn in range(5):
        kept = []
        show(escapes(x + turn, kept), *kept)
    for n in (1, 2, 3, 4, 2.5, 3.5, -1, True, 2**24, 2**25 + 1, 1e-39, 0, 0.0, -0.0, float("nan"), float("inf")):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            for _ in range(4):
                show(by_number(x, n))
        print(n, [str(one.message) for one in caught])


def scaled(x, by=3.0):
    return torch.from_numpy((x + 0).numpy() * 3.0) + 1


def shifted(x):
    return torch.from_numpy((x + 0).numpy() - 3e38) + 1


# Elements that overflow, come out small, or are none.
LARGE = 3e38
for function in (scaled, shifted):
    for mode in ("warn", "raise", "ignore"):
        with np.errstate(all=mode):
            for value in (1.0, 1.0, 1.0, 1.0, LARGE, -LARGE, 1e-39, math.inf, math.nan, 0.0, -0.0, 1.0):
                with warnings.catch_warnings(record=True) as caught:
                    warnings.simplefilter("always")
                    try:
                        show(function(torch.full((2, 3), value)))
                    except FloatingPointError as error:
                        print("  ", error)
                print(function.__name__, mode, value, [(str(one.message), one.lineno) for one in caught])


def of_a_parameter(x, w):
    return torch.from_numpy((x @ w).numpy() * 2)


w = torch.eye(4, requires_grad=True)
for turn in range(5):
    try:
        show(of_a_parameter(torch.ones(2, 4), w))
    except RuntimeError as error:
        print(error)
    with torch.no_grad():
        show(of_a_parameter(torch.ones(2, 4), w))
    with torch.inference_mode():
        y = of_a_parameter(torch.ones(2, 4), w)
    print(y.is_inference(), y.is_leaf)


def odd_layouts(x):
    a = x.t().numpy() * 2
    b = x[::2].numpy() + 1
    c = x.to(torch.int64).numpy() * 2
    return torch.from_numpy(a), torch.from_numpy(b), torch.from_numpy(c), a.strides, b.strides


for turn in range(5):
    show(*odd_layouts(torch.arange(12.0).reshape(3, 4) + turn))


def at_sizes(x):
    return torch.from_numpy((x * 2).numpy() * 3).sum(0)


for size in (3, 4, 5, 1, 7, 0, 9):
    show(at_sizes(torch.arange(2.0 * size).reshape(size, 2)))


def outside_write(x, cache):
    cache.add_(1)
    return torch.from_numpy((x + cache).numpy() * 3.0)


cache = torch.zeros(3)
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    for value in (1.0, 1.0, 1.0, LARGE, 1.0):
        show(outside_write(torch.full((3,), value), cache), cache)
print(len(caught))


def written_source(x):
    array = x.numpy()
    x.add_(1)
    doubled = array * 2
    array += 1
    return x, array, doubled, torch.from_numpy(array) * 1


for turn in range(5):
    x = torch.ones(3) * turn
    show(*written_source(x), x)


def formatted(x):
    a = (x + 1).numpy() * 2
    print(a, f"{a}")
    return x * 3


# The text of an array is made by Python code, which the program may change.
np.set_printoptions(formatter={"float": lambda value: f"<{value:.2f}>"})
for turn in range(6):
    show(formatted(torch.ones(2) * turn))


def given_to_numpy(x):
    y = x * 2
    y.numpy()
    z = torch.from_numpy(x.numpy() + 1)
    return x, y, z, x + 1


def resized(x):
    try:
        return x.resize_(100).shape
    except RuntimeError as error:
        return str(error)[:40]


for turn in range(6):
    print([resized(y) for y in given_to_numpy(torch.ones(3) * turn)])


def number_of_array(x):
    y = x.numpy() + 1
    return type(y).__name__, type(x.numpy()).__name__, y


def no_array(x):
    return torch.from_numpy((x + 0).numpy() * 2)


for turn in range(5):
    print(number_of_array(torch.tensor(2.5)), number_of_array(torch.tensor([2.5])))
    try:
        print(no_array(torch.tensor(2.5)))
    except TypeError as error:
        print(error)


def gradient(x):
    t = torch.from_numpy(x.numpy() * 2).requires_grad_()
    (t * x).sum().backward()
    return t.grad.stride(), t.grad._version, t.stride()


for sizes in ((0, 2), (2, 0), (1, 1), (1, 3), (3, 1), (2, 1, 3)):
    for turn in range(5):
        print(sizes, gradient(torch.ones(sizes) * turn))


def of_a_column(y):
    """Contiguous, but with strides of its own in a dimension of size 1."""
    return torch.from_numpy(y.unsqueeze(0)[0].detach().contiguous().numpy() - 0.25).add_(1)


for sizes in ((3, 1), (1, 3), (1, 1), (4, 1), (2, 3), (1, 4)):
    for turn in range(5):
        y = torch.arange(float(sizes[0] * sizes[1])).reshape(sizes).swapaxes_(0, 1)
        print(sizes, of_a_column(y).stride(), of_a_column(y.reshape(-1)).tolist())
