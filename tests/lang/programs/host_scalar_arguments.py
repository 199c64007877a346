"""Numbers that change from call to call: computed anew on each replay, whatever they are used for."""

import math

import torch
from support import seq, show

FUNCTIONS = [
    lambda x, s: x * s + s / 2 - x / (s + 20),
    lambda x, s: s - x,
    lambda x, s: s / (x + 10),
    lambda x, s: abs(s) ** x,
    lambda x, s: torch.add(x, x, alpha=s),
    lambda x, s: x.clamp(min=-abs(s), max=abs(s)),
    lambda x, s: torch.addcmul(x, x, x, value=s),
    lambda x, s: torch.where(x > s, x, s),
    lambda x, s: x.masked_fill(x > 0, s),
    lambda x, s: (x + 0).add_(s).mul_(s),
    lambda x, s: torch.arange(4) * s,
    lambda x, s: (x > 1) * s,
    lambda x, s: x.half() * s,
    lambda x, s: torch.mul(input=x, other=s),
    lambda x, s: x + torch.full((2, 2), s),
    lambda x, s: torch.nn.functional.leaky_relu(x - 2, 0.1 * s),
    lambda x, s: x * math.sqrt(abs(s)) + math.floor(s) + round(s * 1.5) + max(s, 3) + min(1, s),
    lambda x, s: x + (s * 3 + 1) // 2 % 7 - (-s),
    lambda x, s: x + 1 if s > 2 else x - 1,
    lambda x, s: x + 1 if s else x,
    lambda x, s: x * (s == 2) + (1 < s < 4) + (not s),
    lambda x, s: x[int(s) % 2] * s,
    lambda x, s: [x, x + 1, x + 2][int(s) % 3],
    lambda x, s: x.view(-1)[: 1 + int(s) % 3],
    lambda x, s: torch.arange(int(abs(s)) % 9 + 1) + x.sum(),
    lambda x, s: x * torch.tensor(s),
    lambda x, s: (x * s, f"{s:>6.2f}|{s!r}|{s}", "%s" % s, str(s)),
    lambda x, s: (x, [s, s * 2], {"s": s, "t": (s, x * s)}),
    lambda x, s: torch.nn.functional.layer_norm(x, (2,), eps=abs(s) * 1e-3 + 1e-5),
    lambda x, s: x + sum([s * k for k in range(3)]),
    lambda x, s: x + {1: 10, 2: 20}.get(s, 30),
    lambda x, s: x / (s - 3),
    lambda x, s: x * (1 // (s - 3)),
]

for number, function in enumerate(FUNCTIONS):
    for s in [0.5, 1.5, 2.5, -1.0, -0.0, 7, 1, 2, 3, 4, 3.0, 2**40]:
        try:
            result = function(seq(2, 2, start=1), s)
        except Exception as error:
            result = (type(error).__name__, str(error))
        show(number, s, result)
