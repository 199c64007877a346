# What torch.distributed is told to receive comes at any time from then on: evaluations before and after it see what is there.
import os
import pathlib
import tempfile

import torch
import torch.distributed as dist

folder = tempfile.TemporaryDirectory()
child = os.fork()
store = dist.FileStore(str(pathlib.Path(folder.name) / "store"), 2)
dist.init_process_group("gloo", store=store, rank=0 if child else 1, world_size=2)
if not child:
    for value in (3.0, 5.0):
        store.get(f"read before {value}")
        dist.send(torch.full((2, 2), value), 0)
        dist.barrier()
    dist.destroy_process_group()
    os._exit(0)

model = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.ReLU(), torch.nn.Linear(2, 2)).eval()
with torch.no_grad():
    for parameter in model.parameters():
        parameter.fill_(1)


def evaluate():
    with torch.no_grad():
        return round(model(torch.ones(1, 2)).sum().item(), 3)


print([evaluate() for _ in range(4)])
for layer, value in ((model[0], 3.0), (model[2], 5.0)):
    with torch.no_grad():
        work = dist.irecv(layer.weight, 1)
    print("before", [evaluate() for _ in range(4)])
    store.set(f"read before {value}", "yes")
    work.wait()
    print("after", [evaluate() for _ in range(4)])
    dist.barrier()
dist.destroy_process_group()
os.waitpid(child, 0)
