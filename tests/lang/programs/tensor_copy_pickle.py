import copy
import io
import pickle
import torch
from torch import nn
from support import fixed, seq, show

model = fixed(nn.Sequential(nn.Linear(2, 2), nn.ReLU()))


def run(net, x):
    y = net(x)
    return y, copy.copy(y) is y, copy.deepcopy(x) + y


with torch.no_grad():
    for step in range(8):
        show(*run(model, seq(1, 2, start=step % 2)))
        if step == 3:
            model = copy.deepcopy(model)
            model[0].weight.mul_(2)
        if step == 5:
            model = pickle.loads(pickle.dumps(model))
            buffer = io.BytesIO()
            torch.save(model.state_dict(), buffer)
            buffer.seek(0)
            model.load_state_dict(torch.load(buffer))
