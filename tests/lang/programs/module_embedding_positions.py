import torch
from torch import nn
from support import fixed, seq, show


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.tokens, self.positions = nn.Embedding(10, 4, padding_idx=0), nn.Embedding(8, 4)
        self.norm = nn.LayerNorm(4)

    def forward(self, ids, offset=0):
        where = torch.arange(offset, offset + ids.shape[-1], device=ids.device)
        return self.norm(self.tokens(ids) + self.positions(where))


model = fixed(Model())
with torch.no_grad():
    for ids, offset in (([1, 2], 0), ([3, 4], 0), ([5, 6], 1), ([7, 8], 2), ([1, 2, 3], 0), ([1, 2], 0), ([9], 7)):
        show(model(torch.tensor([ids]), offset))
