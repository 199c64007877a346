import torch
from support import seq, show


def model(x, kinds):
    log = []
    try:
        if kinds:
            raise ExceptionGroup("several", [kind(str(i)) for i, kind in enumerate(kinds)])
        x = x * 2
    except* ValueError as group:
        log.append(("value", len(group.exceptions)))
        x = x + 1
    except* TypeError as group:
        log.append(("type", len(group.exceptions)))
        x = x - 1
    return x, log


for kinds in ([], [], [ValueError], [ValueError, TypeError, ValueError], [], [TypeError]):
    show(*model(seq(2), kinds))
