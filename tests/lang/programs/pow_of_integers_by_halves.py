# An integer to the power of a half type is first taken into that type.
import torch

torch.set_num_threads(1)
large, small = torch.tensor([70000, -70000]), torch.tensor([259, 261])
half, bfloat = torch.tensor([0.001, 1.5]).half(), torch.tensor([9.0, 9.0]).bfloat16()


def powers(large, small, half, bfloat):
    return large**half, torch.pow(small, bfloat), half**small, small.int() ** half, small ** bfloat.float()


for turn in range(6):
    print([power.tolist() for power in powers(large, small, half, bfloat)])
