import torch
from support import seq, show


def model(x):
    y = torch.where(x > 0, x.sqrt(), (-x).log1p())
    y = y + torch.erf(x) * torch.sigmoid(x) - torch.nn.functional.gelu(x) + torch.nn.functional.silu(x)
    y = y.clamp(-1, 1).exp() / (1 + x.abs()) ** 1.5
    return torch.lerp(y, x, 0.3), torch.atan2(x, y), x.floor() + x.ceil(), x.sign(), torch.maximum(x, y), x.round(decimals=1), x % 0.7, x // 0.3, x.pow(3)


for step in range(5):
    show(*model(seq(6, start=step)))
