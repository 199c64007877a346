"""Operators in the contexts that torch gives them; what is printed is the same where they are counted (`--explain`) and where not."""

import threading

import torch
import torch.nn.functional as functional
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

torch.manual_seed(0)
x = torch.randn(4, 4)
z = torch.randn(3, dtype=torch.cfloat)


def conjugates():
    print(z.conj().tolist() == [value.conjugate() for value in z.tolist()], z.conj().resolve_conj().is_conj(), z.conj().imag.is_neg())
    print(z.conj().imag.tolist() == [-value.imag for value in z.tolist()], z.conj().imag.resolve_neg().is_neg())
    print(x.resolve_conj() is x, x.resolve_neg() is x, z.conj().numpy(force=True).tolist() == z.conj().tolist())


def transforms():
    print(torch.vmap(lambda a: a.sin() + a.mul(2))(x).sum().item(), torch.func.grad(lambda a: (a * a).sum())(x).sum().item())
    print(torch.func.jvp(torch.sin, (x,), (torch.ones_like(x),))[1].sum().item(), torch.func.hessian(lambda a: (a ** 3).sum())(torch.ones(3)).tolist())


def modes():
    class Dispatched(TorchDispatchMode):
        def __torch_dispatch__(self, function, types, args=(), kwargs=None):
            print("dispatched", function)
            return function(*args, **(kwargs or {}))

    class Called(TorchFunctionMode):
        def __torch_function__(self, function, types, args=(), kwargs=None):
            print("called", getattr(function, "__name__", function))
            return function(*args, **(kwargs or {}))

    with Dispatched():
        y = functional.dropout(functional.linear(x, x, x[0]), 0.0)
        y.tolist(), y.t().reshape(-1).conj().numpy(), torch.stack([y, y]), z.conj().resolve_conj()
    with Called():
        (x + x).relu_().t().tolist()
        functional.conv2d(torch.ones(1, 1, 3, 3), torch.ones(1, 1, 2, 2))


class Wrapper(torch.Tensor):
    @staticmethod
    def __new__(cls, inner):
        return torch.Tensor._make_wrapper_subclass(cls, inner.shape, dtype=inner.dtype)

    def __init__(self, inner):
        self.inner = inner

    @classmethod
    def __torch_dispatch__(cls, function, types, args=(), kwargs=None):
        print("wrapped", function)
        result = function(*[arg.inner if isinstance(arg, cls) else arg for arg in args], **(kwargs or {}))
        return cls(result) if isinstance(result, torch.Tensor) else result


def subclasses():
    one = Wrapper(torch.ones(2, 2))
    (one + 1).mm(one)
    functional.linear(one, one), one.resolve_conj(), one.view(4), one.detach()


def tracers():
    from torch._subclasses.fake_tensor import FakeTensorMode
    from torch.fx.experimental.proxy_tensor import make_fx

    print(torch.jit.trace(lambda a: functional.linear(a, a).relu().t().reshape(-1), x).graph)
    print(make_fx(lambda a: functional.softmax(functional.linear(a, a), -1).sum(1))(x).code)
    with FakeTensorMode():
        print((torch.empty(3, 4) @ torch.empty(4, 5)).shape)


def errors():
    calls = (lambda: torch.add(x, torch.ones(3)), lambda: torch.mm(x, torch.ones(3, 3)), lambda: functional.linear(x, torch.ones(3, 3)), lambda: x.view(3),
             lambda: torch.cat([x, torch.ones(1)]), lambda: torch.add(x, 1, out=torch.empty(3, dtype=torch.int)), lambda: torch.embedding(x, torch.tensor([9])),
             lambda: x[7], lambda: torch.zeros(2, requires_grad=True).add_(1), lambda: x.item(), lambda: z.conj().numpy())
    for call in calls:
        try:
            print(call())
        except Exception as error:
            print(type(error).__name__, str(error).splitlines()[0])


def identities():
    out = torch.empty(4, 4)
    print(torch.add(x, x, out=out) is out, x.add_(0) is x, x.copy_(x) is x)
    with torch.inference_mode():
        print((x + 1).is_inference())
    with torch.autocast("cpu", dtype=torch.bfloat16):
        print(functional.linear(x, x).dtype, torch.mm(x, x).dtype, functional.softmax(functional.linear(x, x), -1).dtype)
    sparse = x.to_sparse()
    print((sparse + sparse).to_dense().sum().item(), torch.sparse.mm(sparse, x).sum().item())
    print(torch.ops.aten.add.Tensor(x, x).sum().item(), torch.ops.aten.linear(x, x).sum().item(), torch.ops.aten.resolve_conj(z.conj()).is_conj())


def threads():
    results = []

    def work():
        value = x
        for _ in range(6000):
            value = torch.add(x, 1)
        results.append(value.sum().item())

    running = [threading.Thread(target=work) for _ in range(4)]
    for thread in running:
        thread.start()
    for thread in running:
        thread.join()
    print(len(results), len(set(results)))


def gradients():
    w = torch.ones(3, requires_grad=True)
    (w * w).sum().backward()
    lstm = torch.nn.LSTM(3, 3)
    lstm(torch.ones(2, 1, 3))[0].sum().backward()
    print(w.grad.tolist(), lstm.weight_ih_l0.grad.shape, torch.utils.checkpoint.checkpoint(lambda a: a.sin().sum(), w, use_reentrant=False).item())


for part in (conjugates, transforms, modes, subclasses, tracers, errors, identities, threads, gradients):
    part()
