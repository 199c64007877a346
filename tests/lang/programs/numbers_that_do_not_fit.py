"""Numbers that change and at last are too large for the tensors' type, or NaN: raised for, wrapped or ignored, as libtorch does for each operator."""
import torch
import torch.nn.functional as F
from support import show

OPERATIONS = {
    "fill": lambda x, v: x.clone().fill_(v) + x, "full": lambda x, v: torch.full((2,), v, dtype=x.dtype) + x, "full_like": lambda x, v: torch.full_like(x, v) + x,
    "alpha": lambda x, v: torch.add(x, x, alpha=v) * 1, "mul": lambda x, v: x * v + 1, "addcmul": lambda x, v: torch.addcmul(x, x, x, value=v) * 1,
    "pow": lambda x, v: (x + 1).pow(v) * 1, "threshold": lambda x, v: F.threshold(x, v, v) * 1, "leaky": lambda x, v: F.leaky_relu(x - 3, v) * 1,
    "clamp_min": lambda x, v: x.clamp(min=v) * 1, "clamp_max": lambda x, v: x.clamp(max=v) * 1, "clamp": lambda x, v: x.clamp(0.5, v) * 1,
    "where": lambda x, v: torch.where(x > 1, x, v) * 1, "masked": lambda x, v: x.masked_fill(x > 1, v) * 1, "less": lambda x, v: (x < v) * x, "rsub": lambda x, v: v - x,
    "hardtanh": lambda x, v: F.hardtanh(x, -1.0, v) * 1, "elu": lambda x, v: F.elu(x - 2, v) * 1, "filled": lambda x, v: x.index_fill(0, torch.tensor([0]), v) * 1,
}
NUMBERS = ((1.0, 2.0, 3.0, 4.0, float("nan"), 5.0, 1e5, 1e300, -1e300, float("inf"), 8.0), (1, 2, 3, 4, 300, 6, -1, 70000, 2**40, 2**62, 7))
for dtype in (torch.float32, torch.float16, torch.bfloat16, torch.int64, torch.int8, torch.uint8):
    for name, operation in OPERATIONS.items():
        for numbers in NUMBERS:
            for number in numbers:
                print(dtype, name, number, end=" ")
                try:
                    show(operation(torch.tensor([1, 2]).to(dtype), number))
                except Exception as error:
                    print(type(error).__name__, str(error)[:70])
