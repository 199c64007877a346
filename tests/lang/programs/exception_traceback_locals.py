import sys
import torch
from support import seq, show


def deep(x, n):
    local = x * n
    if n == 0:
        raise RuntimeError("bottom")
    return deep(local, n - 1)


for step in range(5):
    try:
        deep(seq(2, start=step), 3)
    except RuntimeError as error:
        walk = error.__traceback__
        while walk:
            if "local" in walk.tb_frame.f_locals and "n" in walk.tb_frame.f_locals:
                show(walk.tb_frame.f_code.co_name, walk.tb_lineno, walk.tb_frame.f_locals["n"], walk.tb_frame.f_locals["local"])
            walk = walk.tb_next
