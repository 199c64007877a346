import torch
from support import seq, show


def model(x):
    return (x.shape, x.size(), x.size(0), x.stride(), x.dtype, str(x.device), x.dim(), x.ndim, x.numel(), x.is_floating_point(), x.is_leaf,
            x.element_size(), x.nbytes, x.itemsize, x.layout, x.is_contiguous(), x.storage_offset(), x.T.shape if x.dim() == 2 else None,
            len(x), x.shape[-1] * 2, list(x.shape), isinstance(x.shape, tuple), x.is_cpu, x.names, torch.is_tensor(x), x.shape.numel(), x.shape[:1] + (7,))


for step in range(9):
    x = [seq(2, 3), seq(4, dtype=torch.float64), seq(3, 2).t()][(step // 3)]
    print(*model(x))
