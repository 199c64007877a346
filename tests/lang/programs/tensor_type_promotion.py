import torch
from support import seq, show


def model(a, b):
    return a + b, a * 2, a * 2.5, b / 2, b + True, a > b, torch.result_type(a, b), a.double() + b, b // 2, torch.tensor(3) * a


for step in range(9):
    a = [torch.arange(3), seq(3), seq(3, dtype=torch.float64)][step // 3]
    b = [seq(3), torch.arange(3, dtype=torch.int32), torch.tensor([True, False, True]).int()][step // 3]
    show(*[v if isinstance(v, torch.Tensor) else str(v) for v in model(a, b)])
