# Collectives of torch.distributed write tensors without moving their version counters: weights and statistics that were read once.
import pathlib
import tempfile

import torch
import torch.distributed as dist

folder = tempfile.TemporaryDirectory()
dist.init_process_group("gloo", init_method=(pathlib.Path(folder.name) / "store").as_uri(), rank=0, world_size=1)
model = torch.nn.Sequential(torch.nn.Conv2d(1, 2, 1), torch.nn.BatchNorm2d(2), torch.nn.Flatten(), torch.nn.Linear(2, 2)).eval()
with torch.no_grad():
    for parameter in model.parameters():
        parameter.fill_(1)


def evaluate():
    with torch.no_grad():
        return round(model(torch.ones(1, 1, 1, 1)).sum().item(), 3)


def collective(name):
    bias, weight, mean, variance = model[0].bias, model[0].weight, model[1].running_mean, model[1].running_var
    if name == "scatter":
        dist.scatter(variance, [torch.full((2,), 3.0)])
    elif name == "scatter later":
        dist.scatter(mean, [torch.full((2,), 0.5)], async_op=True).wait()
    elif name == "all_to_all_single":
        dist.all_to_all_single(bias, torch.full((2,), 5.0))
    elif name == "all_gather":
        dist.all_gather([model[3].bias], torch.full((2,), 4.0))
    elif name == "reduce_scatter":
        dist.reduce_scatter_tensor(model[3].weight, torch.full((2, 2), 2.0))
    elif name == "all_gather_into_tensor":
        dist.all_gather_into_tensor(weight, torch.full((2, 1, 1, 1), 0.25))
    elif name == "read":
        dist.gather(weight, [torch.empty_like(weight)])


for name in ("scatter", "scatter later", "all_to_all_single", "all_gather", "reduce_scatter", "all_gather_into_tensor", "read"):
    before = [evaluate() for _ in range(3)]
    with torch.no_grad():
        collective(name)
    print(name, before, [evaluate() for _ in range(3)])
dist.destroy_process_group()
