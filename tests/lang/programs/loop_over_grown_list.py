"""Loops with graph breaks over lists from outside that the same code has written: where the loop stands counts what was written."""
import torch


def appended(y, items):
    items.append(y) if len(items) < 6 else items.clear()
    for one in [v for v in items if v.sum() > 0.1]:
        print("body", one.tolist())
    return len(items)


def in_the_loop(x, items):
    total = 0
    for item in items:
        total = total + item
        if len(items) < 5:
            items.append(item + 1)
        if total.sum() > 4:
            total = total * 0.5
    return total, len(items)


def shortened(x, items):
    seen = []
    for item in items:
        seen.append(item)
        if x.sum() > 2:
            x = x - 1
        if len(items) > 3:
            items.pop()
    return x, seen, items


def replaced(x, items):
    for index, item in enumerate(items):
        items[index] = item + x
        if items[index].sum() > 3:
            x = x * 2
    return x, items


def zipped(x, items, others):
    items.append(x)
    for a, b in zip(items, others):
        if a.sum() > b:
            x = x + a
    return x, len(items)


def grown_dict(x, table):
    table["new"] = x
    out = []
    for key, value in table.items():
        if value.sum() > 2:
            out.append(key)
    return out


def grown_before_values(x, table):
    total = x
    table.setdefault("z", x + 1)
    for value in table.values():
        if total.sum() > 3:
            total = total - value
        total = total + value * 2
    return total


for step in range(12):
    y = torch.ones(2) * (step % 2)
    print(step, appended(y, []), appended(y + 1, [y] * (step % 8)))
    print(step, in_the_loop(y, [y]), in_the_loop(y + 1, [y, y + 2]))
    print(step, shortened(y + step % 3, list(range(step % 6))))
    print(step, replaced(y, [y, y + 1, y + 2][: step % 4]))
    print(step, zipped(y, [y + 1] * (step % 3), [0.5, 1.0, 3.0]))
    print(step, grown_dict(y, {}), grown_dict(y + 2, {"a": y, "b": y + 3}), grown_before_values(y, {"a": y, "b": y + 1}))
