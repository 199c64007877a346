import torch
class D:
    def __del__(s):
        print("del")
def f(x):
    d = D()
    x = x + 1
    d = None
    print("after")
    return x
for i in range(4): f(torch.zeros(2))
