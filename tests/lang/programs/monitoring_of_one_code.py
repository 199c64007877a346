# sys.monitoring for a single function, switched on when the code that calls it has long been compiled.
import sys

import torch

monitoring = sys.monitoring
seen = []


def step(x, i):
    y = x + i
    return y.sum()


def caller(i):
    return step(torch.ones(2), i)


monitoring.use_tool_id(3, "lines")
monitoring.register_callback(3, monitoring.events.LINE, lambda code, line: seen.append((code.co_name, line - code.co_firstlineno)))
for i in range(24):
    if i in (6, 16):
        monitoring.set_local_events(3, step.__code__, monitoring.events.LINE)
    if i in (11, 20):
        monitoring.set_local_events(3, step.__code__, 0)
    print(i, caller(i).item(), seen)
    seen.clear()
monitoring.free_tool_id(3)
