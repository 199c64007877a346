import torch
from support import seq, show


def model(x, n):
    return (torch.tensor([1.0, 2.0, n]), torch.tensor(n), torch.tensor([[True], [False]]), torch.as_tensor(x), torch.zeros_like(x), torch.eye(n),
            torch.linspace(0, 1, n), torch.ones(n, dtype=torch.int32), x.new_full((2,), n), torch.stack([torch.tensor(float(i)) for i in range(n)]),
            torch.scalar_tensor(2.5), torch.FloatTensor([1, 2]), torch.Tensor([3]), torch.from_numpy(__import__("numpy").ones(2)))


for step in range(6):
    out = model(seq(2, start=step % 2), 2 + step % 2)
    show(*out)
    out[0].add_(100)
    out[6].add_(1)
