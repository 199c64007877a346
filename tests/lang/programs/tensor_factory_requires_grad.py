import torch
from support import seq, show


def factories(x):
    weight = torch.ones(3, requires_grad=True)
    more = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
    like = torch.zeros_like(x, requires_grad=True)
    new = x.new_full((3,), 2.0, requires_grad=True)
    loss = (x * weight * more + like * new).sum()
    loss.backward()
    return weight, weight.grad, more.grad, like.grad, new.is_leaf, torch.arange(3.0, requires_grad=True) * x


def returned(x):
    return torch.full((2,), 3.0, requires_grad=True), x + 1


def attribute(x):
    y = x * 2
    y.requires_grad = True
    return y * 3, y


def operators(x):
    scalar = x.sum()
    return (torch.ops.aten.add(x, 1), torch.ops.aten.mul.Tensor(x, x), torch.ops.aten.relu_(x * 1), torch.ops.aten.log(scalar.abs(), scalar.abs() + 2),
            torch.ops.aten.size(x), torch.ops.aten.add([1], [2]), torch.ops.aten.add(1, 2))


for step in range(4):
    show(*factories(seq(3, start=step)))
    show(*returned(seq(3, start=step)))
    show(*attribute(seq(3, start=step)))
    show(*operators(seq(3, start=step)))
