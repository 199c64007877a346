"""`data` of a tensor made in inference mode is written outside of it, as under python: it counts its versions, the tensor does not."""

import torch


class Net:
    pass


net = Net()
net.w = torch.nn.Parameter(torch.tensor(0.75))
kept = []


def step(y):
    net.w.data.mul_(0.5)
    net.w.data.add_(1)
    with torch.inference_mode():
        net.w = torch.nn.Parameter(y.sqrt().mean())
    kept.append(net.w)
    return y + 1


def written(y):
    with torch.inference_mode():
        base = y * 2
    data = base.data
    data.add_(1)
    try:
        base.add_(1)
    except RuntimeError as error:
        print(str(error)[:60])
    return data + y


for turn in range(8):
    print(step(torch.arange(6.0).view(2, 3) + turn % 2).sum().item(), round(net.w.item(), 4), net.w.is_inference(), net.w.data.is_inference())
    print(written(torch.ones(3)))
    if turn == 4:
        with torch.inference_mode():
            net.w = torch.nn.Parameter(torch.ones(()))
print([round(w.item(), 4) for w in kept])
