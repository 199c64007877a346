"""Gradients in batches: tensors that stand for many others and have no memory of their own, in code that runs again and again."""

import warnings

import torch
from torch._vmap_internals import _vmap
from torch.autograd.functional import hessian, hvp, jacobian, jvp, vhp, vjp

warnings.simplefilter("ignore")


def batched(x):
    return torch.autograd.grad(x**2, x, torch.eye(3), is_grads_batched=True)[0]


def two_inputs(x):
    w = (x * 2).detach().requires_grad_()
    a, b = torch.autograd.grad((x * w, x.sin()), (x, w), (torch.eye(3), torch.eye(3) * 2), is_grads_batched=True)
    return a + b


def second_order(x):
    (first,) = torch.autograd.grad((x**3).sum(), x, create_graph=True)
    return torch.autograd.grad(first, x, torch.eye(3), is_grads_batched=True)[0]


def jacobian_of(x):
    return jacobian(lambda y: y.exp().cumsum(0) * y.sum(), x, vectorize=True)


def jacobian_with_graph(x):
    return jacobian(lambda y: y * y.sum(), x, vectorize=True, create_graph=True).sum(0).tanh()


def hessian_of(x):
    return hessian(lambda y: (y**3).sum() + y.prod(), x, vectorize=True)


def products(x):
    f = lambda y: (y.sin() * y.sum()).sum()  # noqa: E731
    return vhp(f, x, torch.ones(3))[1] + hvp(f, x, torch.ones(3))[1] + vjp(f, x)[1] + jvp(f, x, torch.ones(3))[1]


def old_vmap(x):
    return _vmap(lambda a, b: (a * b.sum(), a.cos() + 1)[1] + b, (0, 0))(torch.eye(3) + x, torch.ones(3, 3))


def new_vmap(x):
    return torch.func.vmap(lambda a: a * a.sum() + x, randomness="error")(torch.eye(3))


def per_sample(x):
    loss = lambda w, a: ((w * a).sum() ** 2).sin()  # noqa: E731
    return torch.func.vmap(torch.func.grad(loss), (None, 0))(x, torch.eye(3) + 1)


def forward_then_back(x):
    return torch.func.jacfwd(torch.func.jacrev(lambda y: (y.exp() * y[0]).sum()))(x)


def caught(x):
    try:
        return torch.autograd.grad(x**2, x, torch.eye(2), is_grads_batched=True)[0]
    except RuntimeError as error:
        return x * len(str(error).split("\n")[0])


def in_a_loop(x):
    out = torch.zeros(3)
    for row in torch.eye(3):
        out = out + torch.autograd.grad((x * 2).sin(), x, torch.stack([row, row * 2]), is_grads_batched=True)[0].sum(0)
    return out


class Module(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(3, 3)
        self.rows = 0

    def forward(self, x):
        y = self.linear(x)
        rows = torch.autograd.grad(y, x, torch.eye(3), is_grads_batched=True, retain_graph=True)[0]
        self.rows += rows.shape[0]
        return rows @ y


def main():
    torch.manual_seed(0)
    module = Module()
    functions = (batched, two_inputs, second_order, jacobian_of, jacobian_with_graph, hessian_of, products, old_vmap, new_vmap, per_sample, forward_then_back, caught, in_a_loop, module)
    for function in functions:
        for turn in range(8):
            x = (torch.arange(3.0) * 0.3 + turn * 0.1).requires_grad_()
            result = function(x)
            print(getattr(function, "__name__", "Module"), turn, [round(v, 4) for v in result.flatten().tolist()], result.requires_grad)
    print(module.rows)


main()
