import torch
from support import seq, show

weight = seq(3, 3)
total = torch.zeros(3)
for step in range(40):
    x = seq(2, 3, start=step)
    y = torch.relu(x @ weight)
    total = total * 0.9 + y.mean(0)
    if step % 10 == 9:
        show(step, total)
