import torch
from torch import nn
from support import seq, show, trace


class Model(nn.Module):
    def forward(self, x):
        if hasattr(self, "extra"):
            return x * self.extra
        try:
            return self.missing(x)
        except AttributeError as error:
            return x + len(str(error))


model = Model()
for step in range(9):
    if step == 4:
        model.extra = seq(2)
    if step == 7:
        del model.extra
    show(model(seq(2, start=step)))
try:
    model.nothing
except AttributeError as error:
    print(error)
