import torch
from support import seq, show


class Cube(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, scale):
        ctx.save_for_backward(x)
        ctx.scale = scale
        return x ** 3 * scale

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        print("backward with", ctx.scale)
        return grad * 3 * x ** 2 * ctx.scale, None


def model(x, scale):
    return Cube.apply(x * 2, scale).sum()


for step in range(6):
    x = seq(2, start=step % 2).requires_grad_()
    y = model(x, 1.0 + step // 3)
    y.backward()
    show(y, x.grad)
