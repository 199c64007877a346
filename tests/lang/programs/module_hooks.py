import torch
from torch import nn
from support import fixed, seq, show

model = fixed(nn.Sequential(nn.Linear(3, 3), nn.ReLU(), nn.Linear(3, 2)))
seen = []
model[0].register_forward_hook(lambda module, args, out: seen.append(out.sum()))
model[1].register_forward_pre_hook(lambda module, args: (args[0] * 2,))
model[2].register_forward_hook(lambda module, args, out: (out, out + 1))
model.register_forward_pre_hook(lambda module, args, kwargs: (args, kwargs), with_kwargs=True)
with torch.no_grad():
    for step in range(6):
        show(*model(seq(2, 3, start=step % 2)), len(seen), seen[-1])
