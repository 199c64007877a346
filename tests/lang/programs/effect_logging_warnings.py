import logging
import sys
import warnings
import torch
from support import seq, show

logging.basicConfig(stream=sys.stdout, format="%(levelname)s %(name)s %(funcName)s:%(lineno)d %(message)s", level=logging.INFO, force=True)
logger = logging.getLogger("model")


def deprecated():
    warnings.warn("old call", DeprecationWarning, stacklevel=2)


def model(x):
    logger.info("shape %s", tuple(x.shape))
    logger.debug("never shown %s", x)
    deprecated()
    return x * 2


with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    for step in range(5):
        show(model(seq(2, start=step % 2)))
        print(len(caught), caught[-1].category.__name__, caught[-1].lineno)
