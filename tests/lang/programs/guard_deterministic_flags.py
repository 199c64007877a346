import torch
from support import seq, show


def model(x):
    y = torch.empty(3)
    y.fill_(1.0)
    return x * y, torch.are_deterministic_algorithms_enabled(), torch.get_float32_matmul_precision()


for step in range(9):
    torch.use_deterministic_algorithms((step // 3) % 2 == 1)
    torch.set_float32_matmul_precision(["highest", "high", "highest"][step // 3])
    show(*model(seq(3, start=step % 2)))
