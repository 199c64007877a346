import torch
from torch import nn
from support import fixed, seq, show

layer = fixed(nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)).eval()
attention = fixed(nn.MultiheadAttention(8, 2, batch_first=True)).eval()
with torch.no_grad():
    for step in range(5):
        x = seq(1, 3, 8, start=step % 2)
        show(layer(x), attention(x, x, x)[0])
y = layer(seq(1, 3, 8))
y.sum().backward()
show(y, layer.linear1.bias.grad)
