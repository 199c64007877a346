import torch
def f(x): return x + 1
for i in range(3): print(f(torch.ones(2)))
old = torch.Tensor.__add__
torch.Tensor.__add__ = lambda s, o: s * 3
for i in range(3): print('p', f(torch.ones(2)))
torch.Tensor.__add__ = old
for i in range(3): print(f(torch.ones(2)))
torch.Tensor.__add__ = lambda s, o: s * 4
for i in range(3): print('q', f(torch.ones(2)))
