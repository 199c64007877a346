import torch
from torch import nn
from support import fixed, seq, show


class Tied(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(6, 4)
        self.block = nn.Linear(4, 4)
        self.again = self.block
        self.head = nn.Linear(4, 6, bias=False)
        self.head.weight = self.embed.weight

    def forward(self, ids):
        x = self.again(torch.relu(self.block(self.embed(ids))))
        return self.head(x)


model = fixed(Tied())
with torch.no_grad():
    for step in range(6):
        if step == 4:
            model.embed.weight.mul_(2)
        show(model(torch.tensor([step % 6, 2])), len(list(model.parameters())))
