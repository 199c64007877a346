"""Numbers and texts that tensors' data give: shown, computed with, stored, handed out, asked for."""

import torch


class Meter:
    def __init__(self):
        self.total = 0.0
        self.history = []
        self.best = None

    def update(self, value):
        self.total += value
        self.history.append(value)
        if self.best is None or value < self.best:
            self.best = value


def shown(x, y):
    loss = (x * y).sum()
    print(f"{loss.item():.3f} {loss} {loss:.2f} {x[0]} {x[0]!r} {loss.item() * 2 + 1:>9.3f}", "%s|%.1f|%d" % (loss, loss.item(), int((x > y).sum())))
    return x + y


def returned(x):
    return x.sum().item(), f"{x.mean():.2f}", [x.max().item(), (x > 1).sum().item()], {"k": round(x.sum().item(), 1)}


def operand(x):
    scale = x.sum().item()
    return x * scale + scale


def branch(x):
    n = x.sum().item()
    if n > 3:
        print("large", n)
        return x * 2
    return x + n


def index(x, table):
    n = int((x > 0).sum())
    return table[n % len(table)] + x, x[: n % 2 + 1]


def containers(x):
    n, m = x.sum().item(), x.mean().item()
    pair = (n, m)
    table = {"n": n, "m": m}
    table["k"] = n + m
    numbers = [n, m]
    numbers.append(n * 2)
    a, b = pair
    print(numbers, table, pair, a is n)
    return sum(numbers) + max(pair) + table["k"] + len({n, m}) + (n in numbers) + sorted(numbers)[0] + x


def written(x):
    n = x.sum().item()
    text = f"{x}"
    x.add_(1)
    return n, text, x.sum().item(), f"{x}"


def keyed(x):
    n = int(x.sum())
    return {n: "a"}, {n, n + 1}, [n].index(n), (n,) == (int(x.sum()),), x + 1


def meter(x, m):
    m.update(x.sum().item())
    return x * 2


def passed(x):
    def inner(value, *rest, **named):
        return f"{value:.2f} {rest} {sorted(named)}"
    return inner(x.sum().item(), x.mean().item(), k=x.max().item()), x + 1


def generated(x):
    return sum(t.item() for t in x), list(map(lambda t: t.item() + 1, x)), sorted(x, key=lambda t: -t.item())[0], x * 2


def half(x):
    n = (x.to(torch.float16).sum()).item()
    return n / 4, n // 3, -n, x.to(torch.int64).sum().item() % 5, x + 1


def zero_division(x):
    try:
        return 1 / x.sum().item()
    except ZeroDivisionError:
        return "zero"


def not_finite(x):
    n = (x / x).sum().item()
    try:
        return round(n, 2), f"{n:.1f}", int(n)
    except ValueError as error:
        return str(error)


def with_gradient(x):
    w = x.clone().requires_grad_()
    loss = (w * w).sum()
    loss.backward()
    return loss.item(), f"{loss}", w.grad


inputs = [torch.arange(4.0) + i for i in (0, 1, 0, 3, 2, 5)]
m = Meter()
for step, x in enumerate(inputs):
    print(shown(x.reshape(2, 2), torch.ones(2, 2)), returned(x), operand(x), branch(x - 1), index(x, [x, x + 1, x + 2]))
    print(containers(x), written(x.clone()), keyed(x), meter(x, m), passed(x), generated(x), half(x))
    print(zero_division(x * (step % 2)), not_finite(x), with_gradient(x))
print(m.total, m.history, m.best)
total = 0.0
for x in inputs * 5:
    total += (x * 2).sum().item()
    if total > 100:
        print(f"step {total:.1f}")
        total -= 50
print(total)
