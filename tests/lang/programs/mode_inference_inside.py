"""torch.inference_mode switched on and off in the middle of recorded code: results, breaks inside, what is in force afterwards."""

import torch

outside = []


def opaque(t):
    outside.append(torch.is_inference_mode_enabled())
    return eval("t + 1")


def state():
    return torch.is_inference_mode_enabled(), torch.is_grad_enabled()


def inside(x):
    y = x * 2
    with torch.inference_mode():
        z = y @ y
        w = z + 1
    return y, z, w, state()


@torch.inference_mode()
def decorated(x):
    return x.relu() + 1, state()


def calls(x):
    y, s = decorated(x)
    return y.is_inference(), y, s, state()


def broken(x):
    y = x + 1
    with torch.inference_mode():
        z = y * 2
        z = opaque(z)
        z = z - 1
    return z.is_inference(), z, state(), x * 3


def without_grad(x):
    with torch.no_grad():
        with torch.inference_mode():
            z = opaque(x * 2)
        s = state()
        y = z.clone() + x
    return y, s, state()


def nested(x):
    with torch.inference_mode():
        a = x + 1
        with torch.inference_mode(False):
            b = x * 2
            s = state()
            b = opaque(b)
        c = x - 1
    return a.is_inference(), b.is_inference(), c.is_inference(), s, state(), b + 1


def raises(x):
    try:
        with torch.inference_mode():
            x @ x[:, :1].t()
    except RuntimeError:
        return state(), x + 1


def prints(x):
    with torch.inference_mode():
        y = x * 2
        print("inside", y.sum().item(), state())
    return y + 0


def returns(x):
    with torch.inference_mode():
        return x * 5


def kept(x, box):
    manager = torch.inference_mode()
    manager.__enter__()
    box.append(manager)
    return x + 1


def gradient(w):
    with torch.inference_mode():
        scale = (w * w).sum()
    return (w * 2).sum() + float(scale)


for step in range(7):
    x = torch.arange(4.0).reshape(2, 2) + step
    for function in (inside, calls, broken, without_grad, nested, raises, prints, returns):
        print(function.__name__, function(x), state())
    box = []
    y = kept(x, box)
    print(y.is_inference(), state())
    box.pop().__exit__(None, None, None)
    print(state(), outside)
    outside.clear()
    w = torch.ones(2, requires_grad=True)
    loss = gradient(w)
    loss.backward()
    print(loss, w.grad, w.is_inference(), (w + 1).requires_grad)


def entered_beside_no_grad(x, y):
    y = y.tanh()
    with torch.inference_mode(False):
        with torch.no_grad():
            inside = torch.is_grad_enabled(), torch.is_inference_mode_enabled()
            x.set_(y.repeat(2, 1)[:1].detach())
            left = torch.is_grad_enabled(), torch.is_inference_mode_enabled()
        after = torch.is_grad_enabled()
    return inside, left, after, torch.is_grad_enabled()


for step in range(6):
    with torch.no_grad():
        print(entered_beside_no_grad(torch.zeros(2, 2).requires_grad_(), torch.ones(2).requires_grad_()))
    print(entered_beside_no_grad(torch.zeros(2, 2), torch.ones(2)))
