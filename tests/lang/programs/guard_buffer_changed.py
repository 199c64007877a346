import torch
from torch import nn
from support import fixed, seq, show

model = fixed(nn.Sequential(nn.Conv2d(1, 2, 2, bias=False), nn.BatchNorm2d(2))).eval()
x = seq(1, 1, 3, 3)
with torch.no_grad():
    for turn in range(5):
        if turn == 1:
            model[1].running_mean.add_(1)
        if turn == 2:
            model[1].running_var = model[1].running_var * 4
        if turn == 3:
            model[1].eps = 0.5
        if turn == 4:
            model.load_state_dict({k: v * 0.5 for k, v in model.state_dict().items()})
        for step in range(3):
            show(model(x + step % 2))
