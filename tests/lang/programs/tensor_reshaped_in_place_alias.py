"""Sizes changed in place: another name for the same tensor sees them."""
import torch
try: import dynrun
except ImportError:
    import types; dynrun = types.SimpleNamespace(compile=lambda f: f)
def k(x, y):
    x.t_()
    return torch.ones(y.shape)
def k2(x, y):
    x.unsqueeze_(0)
    return x.shape, y.shape, y.stride(), y.ndim
for fn in (k, k2):
    fn = dynrun.compile(fn)
    xs = [torch.ones(2, 3) for _ in range(8)]
    ys = [x if i % 3 == 2 else x + 5 for i, x in enumerate(xs)]
    print([getattr(r, "shape", r) for r in map(fn, xs, ys)])
