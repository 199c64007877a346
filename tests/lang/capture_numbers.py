"""Numbers and texts that no two calls share (of tensors' data, of clocks, random): each function takes two float tensors of shape 4x3
and uses one construct between operators. For capture.py."""

import itertools
import logging
import random
import sys
import time

import torch

CASES = {}
logger = logging.getLogger("dynrun.capture")


def case(function):
    CASES[function.__name__] = function
    return function


@case
def item_returned(x, y):
    return (x * y).sum().item()


@case
def item_returned_nested(x, y):
    loss = (x * y).mean()
    return {"loss": round(loss.item(), 2), "loss_tensor": loss, "counts": [int((x > y).sum()), (x > 1).sum().item()]}


@case
def item_arithmetic(x, y):
    total = 0.0
    for t in (x, y):
        total += t.sum().item() * 2
    return x + y, total / 2 - 1


@case
def item_formatted(x, y):
    loss = (x - y).pow(2).mean()
    print(f"loss {loss.item():.4f} of {x.size(0)} rows, {loss.item() * 100:>8.2f} %")
    return x + y


@case
def item_percent(x, y):
    print("loss %.3f after %d steps, %s" % (x.sum().item(), 3, (x > y).sum().item()))
    return x + y


@case
def item_rounded(x, y):
    print(round(x.mean().item(), 3), round(abs(y.sum().item()), 2), str(round(x.sum().item(), 2)), round(float(y.mean()), 2))
    return x + y


class Meter:
    def __init__(self):
        self.sum, self.count, self.history = 0.0, 0, []

    def update(self, value, n=1):
        self.sum = value * n
        self.count = n
        self.history.append(value)

    @property
    def average(self):
        return self.sum / 2


@case
def item_in_meter(x, y):
    meter = Meter()
    meter.update((x * y).sum().item(), n=2)
    print(f"average {meter.average:.3f}")
    return x + y, meter.history


@case
def item_none_test(x, y):
    loss = x.sum().item()
    if loss is not None:
        print("loss", round(loss, 2))
    return x + y


@case
def item_logged(x, y):
    logger.warning("loss %.3f", x.sum().item())
    return x + y


@case
def item_keyword(x, y):
    def report(**values):
        print(", ".join([f"{k}={v:.2f}" for k, v in values.items()]))
    report(loss=x.sum().item(), other=y.mean().item())
    return x + y


@case
def item_branch(x, y):
    return x + y if x.sum().item() > 0 else x - y


@case
def item_check(x, y):
    assert x.abs().max().item() < 1000, "too large"
    if not torch.isfinite(y).all().item():
        raise ValueError("not finite")
    count = int((x > y).sum())
    if count > x.numel():
        raise ValueError(f"{count} of {x.numel()}")
    return x * count + y


@case
def item_beside_iterators(x, y):
    named = {"x": x, "y": y}
    largest = x.max().item()
    total = sum(len(name) for name in itertools.chain(named.keys(), sorted(named.keys())))
    for tensor in itertools.chain(named.values(), [x]):
        y = y + tensor
    return y * total, largest


@case
def item_operand(x, y):
    return x * y.sum().item()


@case
def item_as_size(x, y):
    n = int((x > -9).sum(0)[0]) - 1
    return torch.zeros(n, 3) + x[:n], torch.arange(n).sum() + y[n]


@case
def items_as_sizes(x, y):
    counts = (x > -9).sum(1).tolist()
    a, b = x.view(-1).split([counts[0], counts[1] * 3])
    return a.sum(), torch.full((counts[0], 2), 1.5).mean(0), (b * 2).sum() + y


@case
def tensor_as_size(x, y):
    n = (x > -9).sum(0)[0]
    return torch.zeros(n, 2).sum(0), y.expand(n, 4, 3).sum()


@case
def tensor_fstring(x, y):
    print(f"{x.sum():.2f} {x[0]} {y.mean():.3f} {x[1]!r}")
    return x + y


@case
def tensor_str_repr(x, y):
    text = "first " + str(x[0]) + repr(y[0])
    print(text)
    return x + y


@case
def tensor_percent(x, y):
    print("%s and %r" % (x[1], y[0]))
    return x + y


@case
def tensor_text_returned(x, y):
    return f"{x.sum():.2f}", x + y


@case
def clock_start(x, y):
    start = time.time()
    z = x + y
    return z, start > 0


@case
def clock_printed(x, y):
    start = time.perf_counter()
    z = torch.relu(x @ y.t())
    took = time.perf_counter() - start
    print(f"took {took // 1000:.0f} s")
    return z


@case
def clock_nanoseconds(x, y):
    start = time.perf_counter_ns()
    z = x + y
    took = time.perf_counter_ns() - start
    print("%d" % (took // 10**15))
    return z


@case
def clock_branch(x, y):
    start = time.monotonic()
    z = x + y
    return z if time.monotonic() - start >= 0 else x


@case
def random_scale(x, y):
    random.seed(5)
    return x * random.random() + y * random.uniform(1, 2) + random.randint(0, 9)


@case
def random_choice(x, y):
    random.seed(6)
    picked, at = random.choice(["a", "b", "c"]), random.randrange(10)
    z = x * random.choice([1, 2, 3]) + y
    print(picked, at)
    return z


@case
def random_branch(x, y):
    random.seed(7)
    return x + y if random.random() < 0.5 else x - y


@case
def random_gauss(x, y):
    random.seed(8)
    print(f"{random.gauss(0, 1):.3f}")
    return x + y


@case
def exception_info(x, y):
    try:
        {}["a"]
    except KeyError:
        kind = sys.exc_info()[0]
    return x * (kind is KeyError) + y * (sys.exc_info() == (None, None, None))
