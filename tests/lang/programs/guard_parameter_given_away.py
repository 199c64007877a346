# Weights whose address has left torch may be written at any time, and neither a version nor a use count tells.
import ctypes

import torch

torch.set_num_threads(1)
x = torch.ones(2, 33)


def layer():
    made = torch.nn.Linear(33, 65).requires_grad_(False)
    torch.nn.init.ones_(made.weight)
    torch.nn.init.zeros_(made.bias)
    return made


def call(model, x):
    return model(x)


def several(model, count):
    print([call(model, x).sum().item() for _ in range(count)])


exported = layer()
several(exported, 6)
alias = torch.from_dlpack(exported.weight)
several(exported, 4)
alias += 1
several(exported, 3)
alias += 1
several(exported, 3)
del alias
several(exported, 3)

capsule = layer()
alias = torch.utils.dlpack.from_dlpack(torch.utils.dlpack.to_dlpack(capsule.weight))
for turn in range(6):
    alias.mul_(2)
    several(capsule, 3)

pointed = layer()
numbers = (ctypes.c_float * pointed.weight.numel()).from_address(pointed.weight.data_ptr())
for turn in range(4):
    several(pointed, 6)
    numbers[turn] = 5.0
