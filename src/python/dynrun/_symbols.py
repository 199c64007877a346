"""Sizes that are others from call to call, as SymInts: what torch.compile gives back ends of a graph that is for many sizes."""

import contextlib
import operator

import torch
from torch._dynamo.source import ConstantSource
from torch._guards import TracingContext, tracing
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.symbolic_shapes import DimDynamic, ShapeEnv, StatelessSymbolicContext

# By CPython's numbers of binary operations.
OPERATIONS = (operator.add, operator.and_, operator.floordiv, operator.lshift, operator.matmul, operator.mul, operator.mod, operator.or_, operator.pow, operator.rshift,
              operator.sub, operator.truediv, operator.xor)


class Symbols:
    """Of a graph as src/engine/fx_bridge.h describes it, and of its inputs now."""

    def __init__(self, description, inputs):
        self.values, self.asked = inputs, 0
        parts = [(description["values"][number][0], value, open_) for number, value, open_ in zip(description["inputs"], inputs, description["open"])]
        ones = any(isinstance(value, torch.Tensor) and any(value.shape[at] == 1 for at in sizes) for _, value, sizes in parts)
        self.env = ShapeEnv(duck_shape=False, specialize_zero_one=not ones)
        self.mode = FakeTensorMode(shape_env=self.env, allow_non_fake_inputs=True)
        self.fakes = [self.tensor(*part) if isinstance(part[1], torch.Tensor) else part[1] for part in parts]
        self.fakes = [self.whole(*part) if type(part[1]) is int else fake for part, fake in zip(parts, self.fakes)]

    @property
    def inputs(self):
        """What a back end gets as examples: the tensors themselves, SymInts for whole numbers."""
        return [value if isinstance(value, torch.Tensor) else fake for value, fake in zip(self.values, self.fakes)]

    def tensor(self, name, value, sizes):
        if not sizes:
            return self.mode.from_tensor(value, static_shapes=True)
        kinds = [DimDynamic.DYNAMIC if at in sizes else DimDynamic.STATIC for at in range(value.dim())]
        return self.mode.from_tensor(value, source=ConstantSource(name), symbolic_context=StatelessSymbolicContext(dynamic_sizes=kinds))

    def whole(self, name, value, form):
        try:
            number = self.evaluate(form)
            if isinstance(number, torch.SymInt) and number.node.hint == value:
                return number
        except Exception:
            pass  # it is a symbol of its own
        return self.env.create_unspecified_symint_and_symbol(value, ConstantSource(name), DimDynamic.DYNAMIC)

    def evaluate(self, form):
        kind, *parts = form
        if kind == "size":
            return self.fakes[parts[0]].shape[parts[1]]
        if kind == "constant":
            return parts[0]
        if kind == "negative":
            return -self.evaluate(parts[0])
        return OPERATIONS[parts[0] % len(OPERATIONS)](self.evaluate(parts[1]), self.evaluate(parts[2]))

    def run(self, target, arguments, keywords, grad):
        """What the operator gives on tensors without contents; None where that cannot be told."""
        try:
            with self.mode, torch.set_grad_enabled(grad):
                return target(*arguments, **keywords)
        except Exception:
            return None

    @contextlib.contextmanager
    def shown(self):
        """While a back end looks at the graph."""
        before = len(self.env.guards)
        with tracing(TracingContext(self.mode)):
            yield
        self.asked += len(self.env.guards) - before
