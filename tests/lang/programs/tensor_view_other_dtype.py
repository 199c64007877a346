import torch
def g(x):
    a = x.view(torch.int32)
    a.add_(1 << 23)
    return x * 3
for i in range(4): print(g(torch.ones(2)))
def h(x):
    y = x + 1
    a = y.view(torch.int32)
    y.mul_(4)
    z = a + 0
    a.sub_(1 << 23)
    return y * 3, z
for i in range(4): print(h(torch.ones(2)))
