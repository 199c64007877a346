import torch
def f(x, b):
    v = b[1:]
    v.add_(1)
    x.mul_(v[0])
    return v, x.t()
for i in range(5):
    print(i, f(torch.ones(2, 2), torch.ones(4)), flush=True)
for i in range(5):
    x = torch.ones(2, 2); b = torch.from_numpy(x.numpy().reshape(-1))
    print(i, f(x, b), flush=True)
