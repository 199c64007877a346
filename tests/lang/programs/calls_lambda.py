import torch
from support import seq, show

square = lambda x: x * x
compose = lambda *fs: (lambda x: x if not fs else compose(*fs[:-1])(fs[-1](x)))
model = compose(square, torch.sin, lambda x: x + 1)

for step in range(6):
    show(model(seq(5, start=step % 2)))
