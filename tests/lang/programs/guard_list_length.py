import torch
from torch import nn
from support import fixed, seq, show


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.scales = [1.0, 2.0]
        self.layers = nn.ModuleList([nn.Linear(3, 3), nn.Linear(3, 3)])

    def forward(self, x):
        for scale in self.scales:
            x = x * scale + 0.1
        for layer in self.layers:
            x = layer(x)
        return x


model = fixed(Model())


def run():
    with torch.no_grad():
        for step in range(3):
            show(model(seq(1, 3, start=step % 2)))


run()
model.scales.append(3.0)
run()
model.scales.pop()
run()
model.scales[0] = -1.0
run()
model.scales[0] = 1.0
run()
model.layers.append(fixed(nn.Linear(3, 3), start=5))
run()
del model.layers[-1]
run()
model.layers[0], model.layers[1] = model.layers[1], model.layers[0]
run()
