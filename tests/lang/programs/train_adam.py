import torch
from torch import nn
from support import fixed, seq, show

model = fixed(nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2)))
optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
schedule = torch.optim.lr_scheduler.StepLR(optimizer, 3, 0.5)
for step in range(9):
    loss = nn.functional.cross_entropy(model(seq(4, 3, start=step % 3)), torch.tensor([0, 1, 0, 1]))
    loss.backward()
    norm = nn.utils.clip_grad_norm_(model.parameters(), 0.5)
    optimizer.step()
    schedule.step()
    optimizer.zero_grad(set_to_none=step % 2 == 0)
    show(loss, norm, schedule.get_last_lr()[0])
show(model[0].weight, optimizer.state[model[0].weight]["step"])
