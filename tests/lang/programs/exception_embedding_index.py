import torch
from torch import nn
from support import fixed, seq, show


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(5, 3)
        self.calls = 0

    def forward(self, ids):
        self.calls += 1
        x = self.table(ids)
        return torch.tanh(x) + self.calls


model = fixed(Model())
with torch.no_grad():
    for ids in ([0, 1], [2, 3], [4, 4], [5, 0], [1, 1], [-1, 0], [2, 2]):
        try:
            show(model(torch.tensor(ids)), model.calls)
        except IndexError as error:
            print("IndexError", error, model.calls)
