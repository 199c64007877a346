"""copy.deepcopy of containers and tensors that recorded code made, and with parts of copy.py replaced."""
import torch, copy
torch.manual_seed(0)
def f(x, extra):
    y = x * 2
    shared = [1, y]
    d = {"y": y, "s": shared, "again": shared, "t": (1, "a"), "u": (shared, 2), 3: None, "e": extra}
    c = copy.deepcopy(d)
    y.add_(1)
    return d, c, c["s"] is c["again"], c["t"] is d["t"], c["u"][0] is c["s"], c["s"][1] is c["y"], c["y"]._version
def g(x):
    y = (x * 2).t()
    return copy.deepcopy(y).stride(), copy.deepcopy([y, y[0]])
def h(x):
    c = copy.deepcopy({"x": x})
    c["x"].add_(1)
    return x, c
for i in range(6):
    x = torch.ones(2, 3) * i
    print(f(x, 0.5 * i)); print(f(x, [i])); print(g(x)); print(h(x))
copy._deepcopy_dispatch[list] = lambda x, memo: "patched"
print(f(torch.ones(2,3), 1))
copy._deepcopy_dispatch[list] = copy._deepcopy_list
print(f(torch.ones(2,3), 1))
keep = torch.Tensor.__deepcopy__
torch.Tensor.__deepcopy__ = lambda self, memo: "tensor"
print(f(torch.ones(2,3), 1))
torch.Tensor.__deepcopy__ = keep
print(f(torch.ones(2,3), 1))
y = torch.ones(2, requires_grad=True)
def k(y):
    try: return copy.deepcopy([y * 2])
    except RuntimeError as e: return str(e)[:40]
for i in range(3): print(k(y)); 
with torch.no_grad(): print(k(y))
def k(x, w):
    total = copy.deepcopy(x.sum(dim=-1, keepdim=True))
    total += w
    return total, total._version
for i in range(4):
    with torch.set_grad_enabled(i != 2):
        print(k(torch.ones(2, 3) * i, torch.tensor([0.5], requires_grad=True)))
