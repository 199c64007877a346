import torch
from support import seq, show

calls = 0
last = None


def model(x):
    global calls, last, created
    calls += 1
    y = x * calls
    last = y
    created = y.sum()
    return y


for step in range(6):
    y = model(seq(3, start=step % 2))
    show(y, calls, last is y, created)
    if step == 3:
        calls = 10
