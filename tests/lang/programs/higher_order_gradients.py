# torch.cond and its kin: what the functions read besides their arguments is differentiated, too; in cold and in hot code.
import torch
from torch._higher_order_ops.map import map as map_rows

weight = torch.nn.Parameter(torch.full((3,), 2.0))


def chooses(x):
    return torch.cond(x.sum() > 0, lambda x: weight * x, lambda x: x.cos(), (x,)) + 1


def maps(x):
    return map_rows(lambda row, k: row * k + weight, x, torch.ones(3))


for name, function, shape in (("cond", chooses, (3,)), ("map", maps, (2, 3))):
    for grad in (False, True):
        for turn in range(4):
            with torch.set_grad_enabled(grad):
                x, weight.grad = torch.ones(shape, requires_grad=grad), None
                y = function(x)
                if grad:
                    y.sum().backward()
            print(name, grad, turn, y.sum().item(), x.grad, weight.grad)
