import contextlib
import torch
from support import seq, show


@contextlib.contextmanager
def scaled(factor, log):
    log.append("in")
    try:
        yield factor
    except KeyError as error:
        log.append(f"caught {error}")
    finally:
        log.append("out")


def model(x, log, fail):
    with scaled(2.0, log) as factor, contextlib.suppress(IndexError):
        x = x * factor
        if fail == 1:
            raise KeyError("one")
        if fail == 2:
            [][0]
        x = x + 1
    with contextlib.ExitStack() as stack:
        stack.callback(log.append, "callback")
        stack.enter_context(contextlib.nullcontext())
        x = x - 0.5
    return x


for step in range(9):
    log = []
    show(model(seq(2, start=step % 2), log, [0, 0, 1, 2][step % 4]), log)
