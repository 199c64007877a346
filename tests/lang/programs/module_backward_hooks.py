import torch
from torch import nn
from support import fixed, seq, show

model = fixed(nn.Sequential(nn.Linear(3, 3), nn.Tanh(), nn.Linear(3, 1)))
model[0].register_full_backward_hook(lambda module, gin, gout: print("backward", tuple(gout[0].shape)))
model[2].register_full_backward_pre_hook(lambda module, gout: print("pre", len(gout)))
model[0].weight.register_hook(lambda grad: grad * 2)
for step in range(5):
    model.zero_grad()
    model(seq(2, 3, start=step % 2)).sum().backward()
    show(model[0].weight.grad, model[2].bias.grad)
