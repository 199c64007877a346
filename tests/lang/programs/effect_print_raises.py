import io
import os
import sys
import torch
from support import seq, show, trace


class State:
    pass


state = State()


def inner(x, stream, scale):
    y = x * scale
    state.before = scale
    print("first", scale, file=stream)
    z = y + 1
    state.between = "reached"
    print("second", z.shape[0], file=stream, flush=True)
    state.after = "reached"
    return z


def handled(x, stream, scale):
    kept = [x + scale]
    try:
        result = inner(x, stream, scale)
    except (ValueError, BrokenPipeError, UnicodeEncodeError) as error:
        return kept[0] - 1, type(error).__name__
    return result, "fine"


def outer(x, stream, scale):
    return inner(x + 1, stream, scale) * 2


def attempt(stream, scale):
    state.__dict__.clear()
    show(*handled(seq(3, start=scale), stream, scale), sorted(state.__dict__))
    try:
        show(outer(seq(3, start=scale), stream, scale))
    except (ValueError, BrokenPipeError):
        print(trace())


good = io.StringIO()
for step in range(4):
    attempt(good, 2)
print(good.getvalue())
closed = io.StringIO()
closed.close()
attempt(closed, 2)
attempt(closed, 2)
attempt(good, 2)

read_end, write_end = os.pipe()
pipe = os.fdopen(write_end, "w")
for step in range(4):
    attempt(pipe, 3)
os.close(read_end)
attempt(pipe, 3)
os.dup2(1, write_end)
attempt(pipe, 3)
pipe.flush()

latin = io.TextIOWrapper(io.FileIO(os.dup(1), "w"), encoding="ascii", write_through=True)


def accents(x, text):
    y = x * 2
    try:
        print(text, "and", text, file=latin)
    except UnicodeEncodeError as error:
        return y - 1, str(error)
    return y, "fine"


sys.stdout.flush()
for text in ("plain", "plain", "plain", "caf\xe9", "caf\xe9", "caf\xe9", "plain"):
    show(*accents(seq(2), text))
    sys.stdout.flush()
