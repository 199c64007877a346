import torch
from support import seq, show


def model(x, y, n, items):
    t = x + y
    u = torch.sin(t)
    u.mul_(2)
    for index in range(n % 3):
        print("turn", index, n)
        items.append(index)
    for index in range(n % 2, 4, 2):
        u = u + index
        if index > 2:
            break
        print("second", index)
    return u, t


items = []
for step in range(12):
    show(*model(seq(3, start=step % 2), seq(3, start=3), step % 5, items), len(items))
