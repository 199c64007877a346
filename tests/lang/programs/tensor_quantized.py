import torch
from support import seq, show


def model(x):
    q = torch.quantize_per_tensor(x, 0.1, 10, torch.quint8)
    return q.dequantize(), q.int_repr(), torch.fake_quantize_per_tensor_affine(x, 0.1, 0, -128, 127)


for step in range(5):
    show(*model(seq(4, start=step % 2)))
