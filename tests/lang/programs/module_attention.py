import torch
from torch import nn
from support import fixed, seq, show


class Attention(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)

    def forward(self, x, mask=None):
        b, n, c = x.shape
        q, k, v = self.qkv(x).view(b, n, 3, self.heads, c // self.heads).permute(2, 0, 3, 1, 4)
        scores = q @ k.transpose(-2, -1) * (c // self.heads) ** -0.5
        if mask is not None:
            scores = scores.masked_fill(mask[:n, :n] == 0, float("-inf"))
        return self.out((scores.softmax(-1) @ v).transpose(1, 2).reshape(b, n, c))


model = fixed(Attention(8, 2))
mask = torch.tril(torch.ones(8, 8))
with torch.no_grad():
    for n in (3, 3, 3, 4, 3, 5, 6):
        show(model(seq(1, n, 8)), model(seq(2, n, 8, start=1), mask))
