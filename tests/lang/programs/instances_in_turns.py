# Several instances of a class in turns, each with weights and settings of its own; they come, are written, trained and go.
import gc
import weakref

import torch
from torch import nn

torch.manual_seed(0)
torch.set_num_threads(1)


class Block(nn.Module):
    def __init__(self, scale):
        super().__init__()
        self.norm = nn.LayerNorm(8)
        self.first = nn.Linear(8, 8)
        self.second = nn.Linear(8, 8)
        self.scale = scale

    def forward(self, x):
        return x + self.second(torch.relu(self.first(self.norm(x)))) * self.scale


def total(value):
    return round(value.sum().item(), 3)


x = torch.randn(3, 8)
models = [Block(1.0) for _ in range(7)]
with torch.no_grad():
    for turn in range(6):
        print([total(model(x)) for model in models])
    models[2].first.weight.mul_(2)  # one is written
    models[4].scale = 3.0
    models[5].second = nn.Linear(8, 8)
    for turn in range(5):
        print([total(model(x)) for model in models])
    models[1].first.weight.data = models[0].first.weight.data  # two share
    for turn in range(4):
        print([total(model(x)) for model in models])
    models[0].first.weight.mul_(-1)
    for turn in range(4):
        print([total(model(x)) for model in models])

gone = weakref.ref(models[3]), weakref.ref(models[3].first.weight)
del models[3]
gc.collect()
print([reference() is None for reference in gone])
with torch.no_grad():
    for turn in range(12):  # they come and go, at addresses of others
        model = Block(1.0)
        print(total(model(x)), total(model(x)), [total(other(x)) for other in models[:2]])

optimizer = torch.optim.SGD([weight for model in models for weight in model.parameters()], lr=0.05)
for epoch in range(5):
    for model in models:
        optimizer.zero_grad()
        model(x).square().mean().backward()
        optimizer.step()
    with torch.no_grad():
        print([total(model(x)) for model in models])
        print([total(model(x)) for model in models])

parts = nn.Sequential(*[Block(0.5) for _ in range(12)])


def through(x):
    for part in parts:
        x = part(x)
        print(end="")
    return x


with torch.no_grad():
    for turn in range(8):
        if turn == 5:
            parts[6].first.weight.zero_()
        print(total(through(x)))


class Written(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(8, 8)
        self.register_buffer("seen", torch.zeros(8))

    def forward(self, x):
        self.seen.add_(x.sum(0))
        return self.layer(x) + self.seen


counters = [Written() for _ in range(6)]
with torch.no_grad():
    for turn in range(6):
        print([total(counter(x)) for counter in counters], [total(counter.seen) for counter in counters])
