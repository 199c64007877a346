"""Clocks read in the middle of recorded code: what passes between two reads is what passes."""

import time

import torch


def timed(x):
    start = time.perf_counter()
    for _ in range(40):
        x = torch.relu(x @ x) * 0.01
    took = time.perf_counter() - start
    return x, took


def between(x):
    a = time.time()
    y = x + 1
    b = time.time()
    z = y * 2
    c = time.time_ns()
    print(a <= b, b <= c / 1e9 + 1e-6, type(c).__name__)
    return z, a, b


def slept(x):
    start = time.monotonic()
    y = x * 2
    time.sleep(0.002)
    return y, time.monotonic() - start >= 0.002


def deadline(x, seconds):
    end = time.monotonic() + seconds
    turns = 0
    while time.monotonic() < end and turns < 3:
        x = x + 1
        turns += 1
    return x, turns


def stored(x, box):
    box["began"] = time.perf_counter()
    y = x @ x
    box["ended"] = time.perf_counter()
    return y


big = torch.ones(120, 120)
box = {}
least = []
for i in range(8):
    y, took = timed(big)
    least.append(took)
    z, a, b = between(torch.ones(2))
    print(y.sum().item() > 0, z, a <= b, slept(torch.ones(2)), deadline(torch.ones(2), 100), deadline(torch.ones(2), -1))
    before = time.perf_counter()
    stored(big, box)
    print(before <= box["began"] < box["ended"] <= time.perf_counter())
# 40 products of 120 x 120 take longer than nothing, on every call.
print(all(t > 4e-5 for t in least))

fake = iter(range(100))
real = time.time
time.time = lambda: next(fake)
print([between(torch.ones(2))[1:] for _ in range(3)] if False else timed(torch.ones(2, 2))[0].shape)
time.time = real
