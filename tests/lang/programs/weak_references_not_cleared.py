"""torch.cuda.Event takes weak references and does not clear them when it ends: nobody else may make some."""
import gc

import torch


def labelled(x, event):
    return x * event.factor + len(event.names)


def make():
    event = torch.cuda.Event(enable_timing=True)  # needs no device before it is recorded
    event.factor, event.names = 2, ["event"]
    return event


x = torch.ones(3)
for n in range(8):
    event = make()
    for _ in range(20):
        y = labelled(x, event)
    print(y.tolist())
    del event
gc.collect()
junk = [b"\xff" * size for size in range(16, 200, 8) for _ in range(2000)]
print("done")
