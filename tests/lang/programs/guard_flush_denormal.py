# Whether denormal numbers count as zero is part of torch's state, for constants that are computed once as for each call.
import torch

torch.set_num_threads(1)
scale = torch.nn.Linear(1, 1, bias=False).requires_grad_(False)
scale.weight.fill_(2e-38)
large = torch.tensor([1e38])


def folded(x):
    return (scale.weight * 0.5) * x


def made(x):
    return (torch.tensor([2e-38]) * 0.5) * x


for function in (folded, made):
    for turn in range(6):
        flush = turn % 2 == 0
        if not torch.set_flush_denormal(flush):
            continue
        results = [function(large) for _ in range(8)]
        torch.set_flush_denormal(False)
        print(function.__name__, flush, [round(result.item(), 3) for result in results])
