import torch
import torch.nn.functional as F
from support import seq, show


def model(x):
    return F.relu(x) + torch.sin(x)


relu, sin = F.relu, torch.sin
for step in range(15):
    F.relu = (lambda x: x * 0 + 7) if (step // 3) % 2 else relu
    torch.sin = (lambda x: x * 0 + 100) if step // 3 == 4 else sin
    show(model(seq(2, start=step % 2)))
F.relu, torch.sin = relu, sin
