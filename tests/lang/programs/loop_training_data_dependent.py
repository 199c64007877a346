import torch
from support import seq, show


def bisect(f, low, high):
    steps = 0
    while (high - low).item() > 1e-2:
        middle = (low + high) / 2
        if f(middle) > 0:
            high = middle
        else:
            low = middle
        steps += 1
    return low, steps


for step in range(5):
    target = 0.3 + 0.37 * step
    low, steps = bisect(lambda v: v * v - target, torch.tensor(0.0), torch.tensor(2.0))
    print(steps, round(low.item(), 2))
