import torch
from support import seq, show


def running():
    total = torch.zeros(2)
    while True:
        try:
            x = yield total
            if x is None:
                return "done"
            total = total + x
        except ValueError as error:
            print("thrown", error)
            total = total * 0


def drive(xs, fail):
    gen = running()
    next(gen)
    out = [gen.send(x) for x in xs]
    if fail:
        out.append(gen.throw(ValueError("reset")))
    try:
        gen.send(None)
    except StopIteration as stop:
        out.append(stop.value)
    return out


for step in range(6):
    show(drive([seq(2, start=i + step % 2) for i in range(3)], step % 3 == 2))
