import numpy
import torch
from support import seq, show


def model(x):
    values = [round(v, 3) for v in x.tolist()]
    array = x.numpy()
    bigger = torch.from_numpy(array * 2)
    array[0] = 7.0
    return bigger + x, values, array.shape, numpy.asarray(x[1:]).dtype.name, torch.as_tensor(numpy.arange(3))


for step in range(6):
    x = seq(3, start=step % 2)
    show(*model(x), x)
