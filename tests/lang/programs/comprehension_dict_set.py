import torch
from support import seq, show


def model(tensors):
    doubled = {name: value * 2 for name, value in tensors.items() if value.dim() > 0}
    sizes = {value.numel() for value in tensors.values()}
    return doubled, sorted(sizes)


for step in range(6):
    show(*model({"a": seq(2, start=step % 2), "b": seq(2, 2), "c": torch.tensor(1.5)}))
