import gc
import weakref
import torch
from torch import nn
from support import fixed, seq, show

gc.disable()
for turn in range(3):
    model = fixed(nn.Sequential(nn.Linear(3, 3), nn.ReLU(), nn.Linear(3, 2)))
    refs = [weakref.ref(model, lambda r: print("model died")), weakref.ref(model[0].weight, lambda r: print("weight died"))]
    with torch.no_grad():
        for step in range(4):
            show(model(seq(1, 3, start=step % 2)))
    model[0].weight = nn.Parameter(torch.ones(3, 3))
    print("replaced")
    with torch.no_grad():
        show(model(seq(1, 3)))
    del model
    print("end of turn", turn)
