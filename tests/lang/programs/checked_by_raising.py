"""Checks of tensors' values that raise: what comes before a check that fails, and that it raises, is as in CPython."""

import torch

log = []


class Checked(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.arange(4.0))
        self.calls = 0

    def forward(self, x):
        self.calls += 1
        if not torch.all(x > -5):
            raise ValueError(f"too small: {x.min().item()}")
        y = x * self.weight
        log.append(self.calls)
        assert torch.isfinite(y).all(), "not finite"
        assert bool((y > -100).all())
        if torch.any(y > 1000) or torch.any(y < -1000):
            message = f"out of range at call {self.calls}"
            raise RuntimeError(message)
        return torch.relu(y) + 1


def with_random_numbers(x):
    noise = torch.rand(3)
    assert (x > 0).all(), noise.sum().item()
    return x + noise, torch.rand(2)


def behind_a_write(x, into):
    into.add_(1)
    if (x < 0).any():
        raise ValueError(into.tolist())
    return x + into


def caught_inside(x):
    try:
        if (x < 0).any():
            raise ValueError("negative")
        return x * 2
    except ValueError as error:
        return x * 3, str(error)


def several_elements(x):
    if x > 0:
        return x + 1
    raise ValueError("not positive")


def in_a_loop(x):
    total = torch.zeros(())
    for row in x:
        if row.sum() > 100:
            raise OverflowError(total.item())
        total = total + row.sum()
    return total


def with_gradients(x, weight):
    loss = (x * weight).sum()
    if not torch.isfinite(loss):
        raise FloatingPointError(loss.item())
    loss.backward()
    return loss.detach()


def alternates(x):
    if x.sum() > 3:
        raise ValueError("large")
    return x + 1


def tried(function, *arguments):
    try:
        return function(*arguments)
    except Exception as error:
        return type(error).__name__, str(error)


def values(start, bad):
    for turn in range(12):
        x = torch.full((4,), start + turn)
        if turn in bad:
            x[0] = bad[turn]
        yield x


model = Checked()
with torch.no_grad():
    for x in values(1.0, {5: -10.0, 7: float("nan"), 8: 7.0, 9: float("inf")}):
        print(tried(model, x), model.calls, log[-1:])
    torch.manual_seed(3)
    for x in values(1.0, {6: -1.0}):
        print(tried(with_random_numbers, x[:3]), torch.rand(1))
    into = torch.zeros(4)
    for x in values(1.0, {6: -1.0, 9: -1.0}):
        print(tried(behind_a_write, x, into), into)
    for x in values(1.0, {6: -1.0}):
        print(tried(caught_inside, x))
    for x in (torch.ones(1), torch.ones(()), torch.ones(1, 1), torch.ones(2), torch.empty(0), torch.tensor(3), torch.tensor(True)) * 2:
        print(tried(several_elements, x))
    for x in values(1.0, {6: 300.0}):
        print(tried(in_a_loop, x.view(2, 2)))
    for turn in range(16):
        print(tried(alternates, torch.ones(2) * (turn % 2 + 1)))
weight = torch.ones(4, requires_grad=True)
for x in values(1.0, {6: float("inf")}):
    print(tried(with_gradients, x, weight), weight.grad)
