"""Autograd remembers how a view was made: under which modes, beside others, of a detached tensor. Writes to it tell."""
import torch
from support import seq, show


def detached_slice(y):
    return y, y.detach()[1:]


def slice_detached(y):
    return y, y[1:].detach()


def detached(y):
    o = y * 2
    return o, o.detach()


def detached_between(y):
    o = y * 2
    return o, o[1:].detach()[:2]


def only_views(y):
    v = y[1:]
    id(y)
    return y, v


def view_without_grad(y):
    h = y * 2
    with torch.no_grad():
        v = h[1:]
    return h, v


def view_with_grad(y):
    with torch.no_grad():
        h = y * 2
    with torch.enable_grad():
        v = h[1:]
    return h, v


def view_before_no_grad(y):
    w = y[1:]
    with torch.no_grad():
        z = y * 2
    return z, w


def one_of_several(y):
    o = y.clone()
    a, b = o.split(2)
    return o, a


def chunk(y):
    o = y + 1
    return o, o.chunk(2)[1]


def unbound(y):
    o = y.view(2, 2) + 1
    return o, o.unbind(0)[0]


def several_of_argument(y):
    a, b = y.split(2)
    return y, b


def of_two_modes(y):
    h = y * 2
    v = h.view(2, 2)
    with torch.no_grad():
        w = v[0]
    return h, w


def in_inference(y):
    with torch.inference_mode():
        v = y[1:]
    return y, v


FUNCTIONS = (detached_slice, slice_detached, detached, detached_between, only_views, view_without_grad, view_with_grad, view_before_no_grad, one_of_several, chunk, unbound,
             several_of_argument, of_two_modes, in_inference)


def attempt(write):
    try:
        return write()
    except RuntimeError as error:
        return str(error)[:110]


def write_view(base, view, weight):
    view.mul_(weight)
    return base.requires_grad, view.requires_grad, view._version, base._version


def write_base(base, view, weight):
    base.mul_(weight)
    return view.requires_grad, view.grad_fn is None, view._version


for function in FUNCTIONS:
    for write in (write_view, write_base):
        for mode in (torch.enable_grad, torch.no_grad):
            for step in range(5):
                weight = torch.ones(1, requires_grad=True)
                with mode():
                    base, view = function(seq(4, start=step))
                print(function.__name__, write.__name__, mode.__name__, step, view._is_view(), base._is_view(), attempt(lambda: write(base, view, weight)))
                show(view.detach(), base.detach())


def composite(y):
    return y.t().ravel(), torch.repeat_interleave(y, 2), torch.nn.functional.avg_pool1d(y, 2), torch.tensordot(y, y, 1)


for mode in (torch.enable_grad, torch.no_grad):
    for step in range(6):
        with mode():
            results = composite(seq(4, 4, start=step))
        for result in results:
            weight = torch.ones(result.shape, requires_grad=True)
            print(mode.__name__, step, result._is_view(), result._version, attempt(lambda: result.add_(weight).grad_fn.name()))
            show(result.detach())


def written_then_read(t, k):
    with torch.no_grad():
        t[0] = k
    return t.sum()


# The same types, but autograd refuses to go on behind a write to one of several views.
for turn in range(8):
    base = (torch.arange(6.0).reshape(2, 3) / 4).requires_grad_() * 1
    t = base.split(1)[1] if turn % 4 == 3 else base[1:]
    try:
        print(written_then_read(t, float(turn)).item(), t.detach().tolist())
    except RuntimeError as error:
        print(str(error)[:60], base.detach().tolist())
