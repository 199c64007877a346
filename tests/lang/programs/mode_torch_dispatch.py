import torch
from torch.utils._python_dispatch import TorchDispatchMode
from support import seq, show


class Log(TorchDispatchMode):
    names = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.names.append(str(func))
        return func(*args, **(kwargs or {}))


def model(x):
    return torch.relu(x) + x.t() @ x


for step in range(8):
    if step % 4 > 1:
        with Log() as log:
            y = model(seq(2, 2))
        print(log.names)
        log.names.clear()
    else:
        y = model(seq(2, 2))
    show(y)
