import torch
from torch import nn
from support import fixed, seq, show

model = fixed(nn.Sequential(nn.Linear(3, 3), nn.BatchNorm1d(3), nn.Dropout(0.5)))
for step in range(12):
    torch.manual_seed(step)
    model.train((step // 3) % 2 == 0)
    with torch.no_grad():
        show(model(seq(4, 3, start=step % 2)), model[1].running_mean, model[1].num_batches_tracked)
