"""Sizes that are others from call to call, as SymInts: what torch.compile gives back ends of a graph that is for many sizes."""

import contextlib
import operator

import torch
from torch._dispatch.python import enable_python_dispatcher
from torch._dynamo.source import ConstantSource
from torch._guards import TracingContext, tracing
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.symbolic_shapes import DimDynamic, ShapeEnv, StatelessSymbolicContext

# By CPython's numbers of binary operations.
OPERATIONS = (operator.add, operator.and_, operator.floordiv, operator.lshift, operator.matmul, operator.mul, operator.mod, operator.or_, operator.pow, operator.rshift,
              operator.sub, operator.truediv, operator.xor)


class Symbols:
    """Of a graph as src/engine/fx_bridge.h describes it, and of its inputs now. `fixed`: for the sizes and numbers of these inputs alone."""

    def __init__(self, description, inputs, fixed=False):
        self.values, self.complete = inputs, True
        parts = [(description["values"][number][0], value, open_) for number, value, open_ in zip(description["inputs"], inputs, description["open"])]
        if fixed:
            self.mode = FakeTensorMode(allow_non_fake_inputs=True)
            self.fakes = [self.mode.from_tensor(value) if isinstance(value, torch.Tensor) else value for value in inputs]
            return
        ones = any(isinstance(value, torch.Tensor) and any(value.shape[at] == 1 for at in sizes) for _, value, sizes in parts)
        self.env = ShapeEnv(duck_shape=False, specialize_zero_one=not ones)
        self.mode = FakeTensorMode(shape_env=self.env, allow_non_fake_inputs=True)
        self.fakes = [self.tensor(*part) if isinstance(part[1], torch.Tensor) else part[1] for part in parts]
        self.fakes = [self.whole(*part) if type(part[1]) is int else fake for part, fake in zip(parts, self.fakes)]
        self.places = [place for at, fake in enumerate(self.fakes) for place in self.places_of(at, fake)]

    @staticmethod
    def places_of(at, fake):
        """Where the symbols' values are found in a call: (symbol, input, dimension or None)."""
        numbers = enumerate(fake.shape) if isinstance(fake, torch.Tensor) else [(None, fake)]
        return [(number.node._expr, at, dimension) for dimension, number in numbers if isinstance(number, torch.SymInt) and number.node._expr.is_Symbol]

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

    def run(self, target, arguments, keywords, mode):
        """What the operator gives on tensors without contents; None where that cannot be told, which is then so of the whole graph."""
        grad, inference, autocast = mode
        try:
            with contextlib.ExitStack() as entered:
                for context in (self.mode, enable_python_dispatcher(), torch.set_grad_enabled(grad)):
                    entered.enter_context(context)
                if inference:
                    entered.enter_context(torch.inference_mode())
                if autocast:
                    entered.enter_context(torch.autocast(autocast[0], autocast[1]))
                return target(*arguments, **keywords)
        except Exception:
            self.complete = False
            return None

    def shown(self):
        """While a back end looks at the graph."""
        return tracing(TracingContext(self.mode))


class WhileTrue:
    """Code that was made of symbols, while what was found out about them holds; else the code for each choice of sizes."""

    MOST_KNOWN = 4096

    def __init__(self, symbols, code, otherwise):
        self.places, self.facts, self.ranges = symbols.places, [guard.expr for guard in symbols.env.guards], symbols.env.var_to_range
        self.code, self.otherwise, self.known = code, otherwise, {}

    def __call__(self, *inputs):
        values = tuple(inputs[at] if dimension is None else inputs[at].shape[dimension] for _, at, dimension in self.places)
        holds = self.known.get(values)
        if holds is None:
            if len(self.known) >= self.MOST_KNOWN:
                self.known.clear()
            holds = self.known[values] = self.hold(dict(zip((symbol for symbol, _, _ in self.places), values)))
        return (self.code if holds else self.otherwise)(*inputs)

    def hold(self, values):
        inside = all(symbol not in self.ranges or value in self.ranges[symbol] for symbol, value in values.items())
        return inside and all(fact.subs(values) == True for fact in self.facts)  # noqa: E712, of sympy's truths
