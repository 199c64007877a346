"""The first loop that is compiled ends by a signal handler's exception, wherever in the making of the code the signal comes in."""
import os
import signal
import time

import torch


class Alarm(Exception):
    pass


def raising(number, frame):
    noted.append(1)
    raise Alarm


def adds(x, n):
    return x + 1


def ends(after):
    n, x = 0, torch.zeros(3)
    began = time.monotonic()
    try:
        signal.setitimer(signal.ITIMER_REAL, after)
        while True:
            x = adds(x, n)
            n += 1
            if n % 5000 == 0 and time.monotonic() - began > 10:
                return False
    except Alarm:
        return True


def in_a_child(after):
    child = os.fork()
    if child == 0:
        os._exit(0 if ends(after) and len(noted) == 1 else 1)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


noted = []
torch.set_num_threads(1)
signal.signal(signal.SIGALRM, raising)
print(sum(in_a_child(0.0002 + 0.00003 * part) for part in range(150)))
