import torch
import torch.nn.functional as F
from support import seq, show


def model(x, training):
    y = F.dropout(x, 0.4, training=training)
    z = F.dropout(y * 2, 0.2, training=True, inplace=True)
    return y, z, F.gumbel_softmax(x, dim=-1)


torch.manual_seed(5)
for step in range(8):
    show(*model(seq(2, 4, start=step % 2), step % 4 < 2), torch.rand(1))
