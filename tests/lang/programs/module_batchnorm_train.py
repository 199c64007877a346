import torch
from torch import nn
from support import fixed, seq, show

model = fixed(nn.Sequential(nn.Linear(3, 3), nn.BatchNorm1d(3)))
for step in range(6):
    y = model(seq(4, 3, start=step))
    show(y, model[1].running_mean, model[1].running_var, model[1].num_batches_tracked)
