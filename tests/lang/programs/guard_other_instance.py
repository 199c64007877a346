import torch
from torch import nn
from support import fixed, seq, show

models = [fixed(nn.Linear(3, 3), start=i) for i in range(3)] + [fixed(nn.Linear(3, 3, bias=False)), nn.Identity()]
with torch.no_grad():
    for step in range(20):
        show(step % 5, models[step % 5](seq(1, 3, start=step % 2)))
