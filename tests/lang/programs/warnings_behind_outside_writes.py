# Warnings of operators reach Python's `warnings` also where a replay has written outside tensors and cannot be run again.
import warnings

import torch

torch.set_num_threads(1)
seen = torch.zeros(2)


def warned(x):
    seen.add_(1)
    return x.std(0) * 2


for turn in range(8):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        warned(torch.ones(1, 2))
    print(turn, [str(one.message).partition("(")[0] for one in caught], seen.tolist())
warnings.simplefilter("error")
for turn in range(6):
    try:
        warned(torch.ones(1, 2))
        print("no error")
    except UserWarning as error:
        print(turn, str(error).partition("(")[0], seen.tolist())
