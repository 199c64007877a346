import torch
from torch import nn
from support import fixed, seq, show

model = fixed(nn.Sequential(nn.Linear(3, 4), nn.GELU(), nn.LayerNorm(4), nn.Linear(4, 2))).eval()
first = {k: v.clone() for k, v in model.state_dict().items()}
second = {k: v * 1.5 for k, v in first.items()}
with torch.inference_mode():
    pass
with torch.no_grad():
    for state in (first, second, first, second):
        model.load_state_dict(state)
        for step in range(3):
            show(model(seq(2, 3, start=step % 2)))
    model.load_state_dict(second, assign=True)
    for step in range(2):
        show(model(seq(2, 3)))
