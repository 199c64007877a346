import torch
class D:
    def __del__(s): print("del")
def f(x):
    l = [D()]
    x = x + 1
    l[0] = 1; print("replaced")
    d = {'a': D()}; del d['a']; print("deleted")
    return x
for i in range(4): f(torch.ones(2)); print('--')
