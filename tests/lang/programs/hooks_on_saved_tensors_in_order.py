"""Hooks on saved tensors run between the operators: what they print, count, read and raise comes in its order."""

import torch
from torch.nn.utils.parametrizations import spectral_norm
from torch.utils.checkpoint import checkpoint

state = {"packed": 0}


def pack(tensor):
    print("pack", tuple(tensor.shape))
    state["packed"] += 1
    if state["packed"] == 9:
        raise ValueError("the ninth")
    return tensor


def unpack(tensor):
    return tensor


def steps(x):
    y = x.tanh()
    print("after tanh")
    return (y.exp() * state["packed"]).sigmoid().sum()


def plain(x):
    return (x.tanh() * x).sum()


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.convolution = spectral_norm(torch.nn.Conv2d(1, 4, 3, padding=1))
        self.norm = torch.nn.BatchNorm2d(4)
        self.other = torch.nn.Conv2d(4, 6, 3)
        self.seen = 0

    def features(self, x):
        self.seen += 1
        return self.other(self.norm(self.convolution(x)).relu()).relu()

    def forward(self, x):
        return checkpoint(self.features, x, use_reentrant=False).mean()


torch.manual_seed(0)
for turn in range(16):
    state["packed"] = turn // 8 * 4
    x = torch.linspace(0.1, 1, 4, requires_grad=True)
    try:
        with torch.autograd.graph.saved_tensors_hooks(pack, unpack):
            total = steps(x) + plain(x)
        total.backward()
        print(turn, round(x.grad.sum().item(), 4))
    except ValueError as error:
        print("raised", error)
    print(round(plain(x).item(), 4))

net = Net()
optimizer = torch.optim.SGD(net.parameters(), 0.1)
for turn in range(8):
    for batch in (5, 5, 3):
        loss = net(torch.randn(batch, 1, 6, 6))
        loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    print(turn, round(loss.item(), 3), net.seen)
