"""Hooks on the tensors that autograd saves, at sizes that change: called for the program's tensors and no others."""
import torch
from torch.utils.checkpoint import checkpoint

packed = []


def pack(tensor):
    packed.append(tuple(tensor.shape))
    return tensor * 1


def unpack(tensor):
    return tensor


def attention(x):
    return torch.einsum("bts,bsd->btd", x @ x.transpose(1, 2), x)


def saved(x):
    with torch.autograd.graph.saved_tensors_hooks(pack, unpack):
        return torch.einsum("ij,kj->ik", x, x).tanh().sum()


torch.manual_seed(0)
for turn in range(12):
    x = torch.rand(3, 4 + turn % 3, 2, requires_grad=True)
    checkpoint(attention, x, use_reentrant=False).sum().backward()
    print(turn, round(x.grad.sum().item(), 3))
    y = torch.rand(2 + turn % 4, 3, requires_grad=True)
    saved(y).backward()
    print(round(y.grad.sum().item(), 3), len(packed), packed[-2:])
