import torch
from torch import nn
from support import fixed, seq, show

model = fixed(nn.Sequential(nn.Linear(3, 3), nn.ReLU()))


def run(times=3):
    with torch.no_grad():
        for step in range(times):
            show(model(seq(1, 3, start=step % 2)))


run()
handle = model[0].register_forward_hook(lambda module, args, out: out * 2)
run()
second = model[0].register_forward_pre_hook(lambda module, args: (args[0] + 1,))
run()
handle.remove()
run()
second.remove()
run()
third = model.register_forward_hook(lambda module, args, kwargs, out: print("hook", len(args), kwargs), with_kwargs=True)
run()
third.remove()
fourth = nn.modules.module.register_module_forward_hook(lambda module, args, out: print("global", type(module).__name__))
run()
fourth.remove()
run()
