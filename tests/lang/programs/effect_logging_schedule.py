import io
import logging
import sys
import warnings
import torch
from support import seq, show

stream = io.StringIO()
handler = logging.StreamHandler(stream)
handler.setFormatter(logging.Formatter("%(levelname)s %(filename)s:%(lineno)d %(funcName)s %(message)s"))
logger = logging.getLogger("schedule")
logger.addHandler(handler)
logger.propagate = False
logger.setLevel(logging.INFO)


def helper(x, step):
    logger.warning("in the helper %d", step)
    return x * 2


def model(x, step):
    y = helper(x, step)
    logger.info("shape %s of %r", tuple(y.shape), "y")
    logger.debug("not shown %s", y)
    z = y + 1
    logger.error("value %s", z.sum() > 0)
    logger.info("stacked", stacklevel=2)
    return z


def warned(x, kind):
    y = x + 1
    warnings.warn(f"about {kind}", UserWarning, stacklevel=2)
    warnings.warn("here")
    return y * 2


def drained():
    text = stream.getvalue()
    stream.seek(0)
    stream.truncate()
    return text


def caller(step):
    return model(seq(3, start=step), step)


for step in range(4):
    show(caller(step))
    print(drained(), end="")

logger.setLevel(logging.ERROR)
for step in range(3):
    show(caller(1))
    print(drained(), end="")
logger.setLevel(logging.DEBUG)


class Picky(logging.Filter):
    def filter(self, record):
        return "helper" in record.getMessage()


for step in range(3):
    show(caller(step))
    print(drained(), end="")
picky = Picky()
handler.addFilter(picky)
for step in range(3):
    show(caller(step))
    print(drained(), end="")
handler.removeFilter(picky)


class Own(logging.Handler):
    def emit(self, record):
        print("own", record.getMessage(), record.lineno)


own = Own()
logger.addHandler(own)
for step in range(3):
    show(caller(step))
    print(drained(), end="")
logger.removeHandler(own)
show(caller(1))
print(drained(), end="")


def reported():
    sys.stderr = io.StringIO()
    try:
        for step in range(4):
            show(warned(seq(2, start=step), "it"))
        return sys.stderr.getvalue().splitlines()
    finally:
        sys.stderr = sys.__stderr__


def lines(text):
    return [line.split("/")[-1] for line in text]


warnings.simplefilter("always")
print(lines(reported()))
warnings.simplefilter("ignore")
print(lines(reported()))
warnings.simplefilter("error")
for step in range(3):
    try:
        show(warned(seq(2), "error"))
    except UserWarning as warning:
        print("raised", warning, warning.__traceback__.tb_next.tb_lineno - warned.__code__.co_firstlineno)
warnings.simplefilter("always")
with warnings.catch_warnings(record=True) as caught:
    for step in range(3):
        show(warned(seq(2), "caught"))
print([(str(w.message), w.lineno - warned.__code__.co_firstlineno > 0) for w in caught])


def shown(message, category, filename, lineno, file=None, line=None):
    print("shown", message, category.__name__)


warnings.showwarning = shown
for step in range(3):
    show(warned(seq(2), "own"))
