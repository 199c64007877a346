"""torch.autograd.Function where nothing is to be differentiated: what forward() sees, what its results are."""
import collections
import sys
import traceback

import torch
from support import seq, show

Function = torch.autograd.Function
Pair = collections.namedtuple("Pair", "a b")


class Round(Function):
    @staticmethod
    def forward(ctx, x, scale):
        ctx.save_for_backward(x)
        ctx.scale = scale
        ctx.set_materialize_grads(False)
        return torch.round(x / ctx.scale) * scale

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return grad * 2, None


class Both(Function):
    @staticmethod
    def forward(x, y=3.0):
        return Pair(x + y, x * y)

    @staticmethod
    def setup_context(ctx, inputs, output):
        x, y = inputs
        ctx.y = y
        ctx.save_for_backward(x, output[0])

    @staticmethod
    def backward(ctx, a, b):
        return a + b * ctx.y, None


class Looks(Function):
    @staticmethod
    def forward(ctx, x, flag, other):
        ctx.mark_non_differentiable(x)
        return x + 1, (ctx.needs_input_grad, torch.is_grad_enabled(), ctx.saved_tensors, flag), None, [other]


class Same(Function):
    @staticmethod
    def forward(ctx, x, y):
        return x, y * 2, x


class Writes(Function):
    @staticmethod
    def forward(ctx, x):
        x.add_(1)
        ctx.mark_dirty(x)
        return x


class Forgets(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.mark_dirty(x)
        return x + 1


class Fails(Function):
    @staticmethod
    def forward(ctx, x, at):
        y = x + 1
        if at > 3:
            raise ValueError("too far")
        return y


class Nested(Function):
    @staticmethod
    def forward(ctx, x):
        return Round.apply(x, 0.5) + Both.apply(x)[1]


class Learns(Function):
    @staticmethod
    def forward(ctx, x):
        with torch.enable_grad():
            return x.detach().requires_grad_() * 2


class Inherits(Round):
    @classmethod
    def twice(cls, x):
        return cls.apply(cls.apply(x, 0.25), 0.5)


def tell(*values):
    for value in values:
        if isinstance(value, torch.Tensor):
            print(value.requires_grad, value.is_leaf, value._is_view(), type(value.grad_fn).__name__, end=" ")
            show(value)
        else:
            print(type(value).__name__, value)


def no_grad(function):
    with torch.no_grad():
        return function()


def inference(function):
    with torch.inference_mode():
        return function()


def plain(function):
    return function()


def model(x, w, step):
    y = Round.apply(x * 2, 0.5) + w
    a, b = Both.apply(y)
    first, facts, nothing, items = Looks.apply(a, "flag", w)
    p, q, r = Same.apply(x, b)
    written = Writes.apply(b + 0)
    return y, a, type(Both.apply(y, 2.0)).__name__, first, facts, nothing, items[0] is w, p is x, p is r, p.data_ptr() == x.data_ptr(), q, written, Nested.apply(x), Inherits.twice(y)


for around in plain, no_grad, inference:
    for step in range(5):
        x, w = seq(2, start=step), torch.ones(2)
        tell(*around(lambda: model(x, w, step)))

for step in range(5):  # weights that learn, and nobody who asks for gradients
    x, w = seq(2, start=step), torch.nn.Parameter(torch.ones(2))
    tell(*no_grad(lambda: (Round.apply(w, 0.5), Looks.apply(w, x, x)[1], *Same.apply(w, x), Learns.apply(x))))

for step in range(5):  # and some that do
    x = seq(2, start=step).requires_grad_()
    y = Round.apply(x * 2, 0.5)
    y.sum().backward()
    show(y, x.grad)
    tell(Round.apply(x.detach(), 0.5), Learns.apply(x.detach()))


def fails(x, step):
    return Fails.apply(x * 2, step) + 1


for step in range(6):
    try:
        tell(fails(seq(2), step))
    except ValueError as error:
        print([(frame.name, frame.line) for frame in traceback.extract_tb(error.__traceback__) if "torch" not in frame.filename])
    for call in (lambda: Forgets.apply(seq(2)), lambda: Round.apply(seq(2), scale=0.5), lambda: Round.apply(seq(2)), lambda: Function.apply(seq(2))):
        try:
            call()
        except (RuntimeError, TypeError, NotImplementedError) as error:
            print(type(error).__name__, str(error)[:80])


class View(Function):
    @staticmethod
    def forward(ctx, w, kind):
        if kind == 3:
            with torch.enable_grad():
                return (w * 2)[0]
        return (w.t(), w[0], w.expand(2, 2, 3))[kind]


class Marks(Function):
    @staticmethod
    def forward(ctx, a, w):
        w.mul_(2)
        marks(ctx, w)
        return w


def marks(ctx, w):
    ctx.mark_dirty(w)


class Names(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.free, ctx.is_freed, ctx.kind = 1, True, 2
        print(type(ctx).__name__, type(ctx)._forward_cls is Names, sorted(vars(ctx)), ctx.saved_tensors, depth() - ctx.free)
        return x * 2


def depth():
    frame, count = sys._getframe(), 0
    while frame:
        frame, count = frame.f_back, count + 1
    return count


for step in range(5):
    w = torch.nn.Parameter(torch.arange(6.0).view(2, 3) + step)
    tell(*no_grad(lambda: [View.apply(w, kind) for kind in range(4)]))
    x, w = seq(2, start=step), torch.ones(2, requires_grad=True)
    marked = no_grad(lambda: Marks.apply(x + 1, w))
    print(marked is w, marked.data_ptr() == w.data_ptr())
    tell(marked, w, Names.apply(x + 1))


class Counts(Function):
    calls = 0

    @staticmethod
    def forward(ctx, x):
        Counts.calls += 1
        ctx.extra = Counts.calls
        print("forward", ctx.extra)
        return x + Counts.calls


for step in range(5):
    show(Counts.apply(seq(2)))
