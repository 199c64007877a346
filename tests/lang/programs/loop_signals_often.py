"""The exception of a signal handler ends a loop wherever it comes in, each time, and a handler that only notes is always seen."""
import signal
import time

import torch


class Alarm(Exception):
    pass


def raising(number, frame):
    noted.append(1)
    raise Alarm


def noting(number, frame):
    noted.append(1)


def adds(x, n):
    return x + 1


def texts(x, n):
    return x + len(f"{n} {n!r}")


def values(x, n):
    return x * 0.5 + x.sum().item()


def branches(x, n):
    return -x if x.sum() > 3 else x + 1


def ends(body, after):
    n, x = 0, torch.zeros(3)
    began = time.monotonic()
    try:
        signal.setitimer(signal.ITIMER_REAL, after)
        while True:
            x = body(x, n)
            n += 1
            if n % 5000 == 0 and time.monotonic() - began > 10:
                return False
    except Alarm:
        return True


def bare(after):
    n, x = 0, torch.zeros(3)
    began = time.monotonic()
    try:
        signal.setitimer(signal.ITIMER_REAL, after)
        while True:
            x = x + 1
            n += 1
            if n % 5000 == 0 and time.monotonic() - began > 10:
                return False
    except Alarm:
        return True


def waits(body, after):
    n, x = 0, torch.zeros(3)
    signal.setitimer(signal.ITIMER_REAL, after)
    while not noted:
        x = body(x, n)
        n += 1
    return len(noted)


def fresh():
    names = {}
    line = 'text = f"{n} {n!r} {x.shape[0]} {noted}"; x = x + len(text)\n    '
    exec(f"def body(x, n):\n    {line * 20}return x * 0.5", globals(), names)
    return names["body"]


noted = []
signal.signal(signal.SIGALRM, raising)
print([[ends(body, 0.001 * part) for part in range(1, 8)] for body in (adds, texts, values, branches)], len(noted))
print([bare(0.001 * part) for part in range(1, 20)], len(noted))
# While a recording is under way: each of these is new code.
print(sum(ends(fresh(), 0.0002 * part) for part in range(1, 80)), len(noted))
signal.signal(signal.SIGALRM, noting)
for body in (adds, texts, values, branches):
    noted.clear()
    print(waits(body, 0.004))
