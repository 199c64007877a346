import torch
from support import seq, show


class Named(torch.Tensor):
    @staticmethod
    def __new__(cls, data, name="n"):
        made = torch.Tensor._make_subclass(cls, data)
        made.label = name
        return made

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        out = super().__torch_function__(func, types, args, kwargs or {})
        if isinstance(out, Named) and not hasattr(out, "label"):
            out.label = func.__name__
        return out


def model(x):
    y = x * 2
    return y.sin() + x, type(y).__name__, getattr(y, "label", None)


for step in range(12):
    x = seq(2, start=step % 2)
    out, kind, name = model(Named(x) if (step // 3) % 2 else x)
    show(torch.Tensor.as_subclass(out, torch.Tensor), kind, name, type(out).__name__)
