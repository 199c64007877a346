"""Numbers of tensors that are compared with constants before a raise: the comparisons are Python's, in its types."""

import math

import torch


def below(x):
    if x.max().item() > 0.1:
        raise ValueError(f"{x.max().item()!r} is too large")
    return x * 2 + 1


def exactly(x):
    if x.sum().item() != 0.30000000000000004:
        raise ValueError(x.sum().item())
    return x - 1


def integers(x):
    if 2**53 < x.max().item():
        raise OverflowError(x.max().item())
    return x + 1


def small_integers(x):
    assert x.max().item() < 300, "never"
    assert 300 > int(x.min())
    assert x[0].item() != -1, "never, without a sign"
    return x * 2


def counted(x):
    n = int((x > 0).sum())
    if n < 2:
        raise ValueError(f"{n} of {len(x)}")
    return x * n, n


def not_a_number(x):
    largest = x.max().item()
    if not largest < 10:
        raise ValueError(f"{largest}")
    if largest != largest:
        raise ValueError("never")
    return torch.exp(x)


def truths(x):
    if (x < 0).any().item():
        raise ValueError("negative")
    if not torch.isfinite(x).all().item():
        raise ArithmeticError("not finite")
    return torch.sqrt(x)


def between(x):
    assert -1 < float(x.min()) <= 0.5, "the smallest"
    return x + 2


def used_after(x):
    scale = x.max().item()
    if scale >= 100:
        raise ValueError(scale)
    return x / scale, round(scale, 3)


def behind_a_write(x, into):
    into += 1
    if x.min().item() < 0:
        raise ValueError(into.tolist())
    return into + x


def kept(x, log):
    smallest = x.min().item()
    log.append(smallest)
    if smallest < -3:
        raise ValueError(len(log))
    return x * 3, log[-1]


def run(name, function, *calls):
    for args in calls:
        for _ in range(3):
            try:
                result = function(*args)
            except (ValueError, AssertionError, OverflowError, ArithmeticError) as error:
                result = f"{type(error).__name__}: {error}"
            print(name, result, *args[1:])


def main():
    tenth = torch.tensor([0.1, 0.0])
    run("below", below, (tenth.double(),), (torch.tensor([0.05]),), (tenth,), (tenth.half(),), (tenth.bfloat16(),), (torch.tensor([math.nan]),))
    run("exactly", exactly, (torch.tensor([0.1, 0.2], dtype=torch.float64),), (torch.tensor([0.1, 0.2]),), (torch.tensor([0.1, 0.2], dtype=torch.float64),))
    run("integers", integers, (torch.tensor([1, 2**53]),), (torch.tensor([2**53 + 1]),), (torch.tensor([2**53 - 1]),), (torch.tensor([3], dtype=torch.int32),))
    run("small_integers", small_integers, (torch.tensor([255, 5], dtype=torch.uint8),), (torch.tensor([-1, 5], dtype=torch.int8),), (torch.tensor([7], dtype=torch.int16),))
    run("counted", counted, (torch.tensor([1.0, 2.0, -1.0]),), (torch.tensor([3.0, -2.0, -1.0]),), (torch.tensor([3.0, 2.0, 1.0]),))
    run("not_a_number", not_a_number, (torch.tensor([1.0, 2.0]),), (torch.tensor([1.0, math.nan]),), (torch.tensor([11.0]),), (torch.tensor([1.0, math.inf]),), (torch.tensor([3.0]),))
    run("truths", truths, (torch.tensor([1.0, 2.0]),), (torch.tensor([-1.0, 2.0]),), (torch.tensor([1.0, math.inf]),), (torch.tensor([4.0]),))
    run("between", between, (torch.tensor([0.5, 2.0]),), (torch.tensor([0.6, 2.0]),), (torch.tensor([-1.0]),), (torch.tensor([0.0]),))
    run("used_after", used_after, (torch.tensor([4.0, 2.0]),), (torch.tensor([4.0, 200.0]),), (torch.tensor([5.0, 2.0]),))
    into = torch.zeros(2)
    run("behind_a_write", behind_a_write, (torch.tensor([1.0, 2.0]), into), (torch.tensor([-1.0, 2.0]), into), (torch.tensor([1.0, 3.0]), into))
    log = []
    run("kept", kept, (torch.tensor([1.0, 2.0]), log), (torch.tensor([-4.0, 2.0]), log), (torch.tensor([1.0, 3.0]), log))
    weight = torch.tensor([1.0, 2.0], requires_grad=True)
    run("with a gradient", below, (weight * 0.01,), (weight,), (weight * 0.02,))


main()
