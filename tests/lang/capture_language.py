"""Classes, exceptions, contexts, generators, closures, modules: each function takes two float tensors of shape 4x3 and uses one
construct between operators. For capture.py."""

import contextlib
import functools

import torch
import torch.nn.functional as F
from torch import nn

CASES = {}


def case(function):
    CASES[function.__name__] = function
    return function


# Classes


class Vector:
    def __init__(self, value, *others):
        self.value = value
        self.others = others

    def __call__(self, factor):
        return self.value * factor

    def __getitem__(self, index):
        return self.value[index]

    def __setitem__(self, index, value):
        self.value = self.value + value * index

    def __len__(self):
        return 3

    def __iter__(self):
        yield self.value
        yield from self.others

    def __contains__(self, item):
        return item == "a"

    def __eq__(self, other):
        return isinstance(other, Vector) and self.value is other.value

    def __hash__(self):
        return 7

    def __add__(self, other):
        return Vector(self.value + (other.value if isinstance(other, Vector) else other))

    __radd__ = __add__

    def __iadd__(self, other):
        self.value = self.value + other
        return self

    def __neg__(self):
        return Vector(-self.value)

    def __matmul__(self, other):
        return self.value * other.value

    def __lt__(self, other):
        return True

    def __bool__(self):
        return self.value is not None

    def __enter__(self):
        return self.value

    def __exit__(self, *details):
        return False

    def __repr__(self):
        return f"Vector({self.value.shape})"

    def __str__(self):
        return "vector"

    def __format__(self, spec):
        return "formatted" + spec

    def __int__(self):
        return 4

    def __index__(self):
        return 1

    def __float__(self):
        return 2.5

    def __reversed__(self):
        return iter([self.value])


@case
def class_call(x, y):
    return Vector(x)(2) + y


@case
def class_items(x, y):
    v = Vector(x)
    v[2] = y
    return v[0] + v[1:3].sum() + len(v)


@case
def class_iteration(x, y):
    out = 0
    for t in Vector(x, y):
        out = out + t * 2
    a, b = Vector(x, y)
    return out + a - b + ("a" in Vector(x)) + ("b" in Vector(x))


@case
def class_operators(x, y):
    v = Vector(x) + Vector(y)
    v = v + 1
    v = 2 + v
    v += y
    return (-v).value + v @ Vector(y)


@case
def class_compare(x, y):
    v = Vector(x)
    return x + y if v == Vector(x) and v != Vector(y) and v < 3 and not v == 3 else y


@case
def class_hash(x, y):
    table = {Vector(x): 1}
    return x + y * len(table)


@case
def class_bool(x, y):
    v = Vector(x)
    return x + y if v and not Vector(None) and bool(v) else y


@case
def class_with(x, y):
    with Vector(x) as t:
        z = t + y
    return z * 2


@case
def class_text(x, y):
    v = Vector(x)
    return x * len(str(v)) + y * len(repr(v)) + len(f"{v:>3}") + len(f"{v!r}") + len("%s" % v)


@case
def class_numbers(x, y):
    v = Vector(x)
    return x * int(v) + y * [1, 2][v] + float(v) + sum(reversed(v))


class Proxy:
    def __init__(self, inner):
        self.__dict__["inner"] = inner

    def __getattr__(self, name):
        return getattr(self.inner, name)

    def __setattr__(self, name, value):
        self.__dict__[name] = value * 2


@case
def class_getattr(x, y):
    p = Proxy(Vector(x))
    p.factor = 2
    return p.value + y * p.factor


class Traced:
    def __init__(self, value):
        self.value = value

    def __getattribute__(self, name):
        return object.__getattribute__(self, name)


@case
def class_getattribute(x, y):
    return Traced(x).value + y


class Base:
    count = 2

    def __init__(self, value):
        self.value = value

    def scale(self, factor):
        return self.value * factor

    @property
    def twice(self):
        return self.value * 2

    @twice.setter
    def twice(self, value):
        self.value = value / 2

    @classmethod
    def make(cls, value):
        return cls(value)

    @staticmethod
    def shift(value, by=1):
        return value + by


class Derived(Base):
    def __init__(self, value, bias):
        super().__init__(value)
        self.bias = bias

    def scale(self, factor):
        return super().scale(factor) + self.bias

    @property
    def twice(self):
        return super().twice + 1


@case
def class_super(x, y):
    return Derived(x, y).scale(2) + Derived.shift(x)


@case
def class_super_property(x, y):
    return Derived(x, y).twice + y


@case
def class_property(x, y):
    b = Base(x)
    b.twice = y
    return b.twice + b.value + b.count


@case
def class_methods(x, y):
    b = Base.make(x)
    method = b.scale
    return method(2) + b.shift(y) + Base.scale(b, 3) + type(b).count + b.make(y).value


class Diamond(Derived):
    def scale(self, factor):
        return super(Derived, self).scale(factor) + 3


@case
def class_super_explicit(x, y):
    return Diamond(x, y).scale(2)


class Celsius:
    def __set_name__(self, owner, name):
        self.name = "_" + name

    def __get__(self, instance, owner=None):
        return self if instance is None else getattr(instance, self.name) * 2

    def __set__(self, instance, value):
        setattr(instance, self.name, value + 1)


class Weather:
    heat = Celsius()


@case
def class_descriptor(x, y):
    w = Weather()
    w.heat = x
    return w.heat + y


class Registry(type):
    def __new__(meta, name, bases, namespace):
        cls = super().__new__(meta, name, bases, namespace)
        cls.tag = len(name)
        return cls

    def __call__(cls, *args):
        made = super().__call__(*args)
        made.extra = 1
        return made

    @property
    def size(cls):
        return 3


class Registered(metaclass=Registry):
    def __init__(self, value):
        self.value = value


@case
def class_metaclass(x, y):
    return Registered(x).value * Registered.tag + y * Registered(y).extra


@case
def class_metaclass_property(x, y):
    return x * Registered.size + y


class Single:
    instance = None

    def __new__(cls, value):
        made = super().__new__(cls)
        made.made = True
        return made

    def __init__(self, value):
        self.value = value


@case
def class_new(x, y):
    return Single(x).value + y * Single(y).made


class Named(tuple):
    def total(self):
        return sum(self)


class Bag(dict):
    def __getattr__(self, name):
        return self[name]

    def __setattr__(self, name, value):
        self[name] = value


class Items(list):
    def last(self):
        return self[-1]


@case
def class_dict_subclass(x, y):
    b = Bag(a=x)
    b.b = y
    return b.a + b["b"] + len(b)


@case
def class_list_subclass(x, y):
    items = Items([x])
    items.append(y)
    return items.last() + items[0] + len(items)


@case
def class_tuple_subclass(x, y):
    return Named((x, y)).total() + Named((x,))[0]


class Slots:
    __slots__ = ("a", "b")

    def __init__(self, a, b):
        self.a, self.b = a, b


@case
def class_slots(x, y):
    s = Slots(x, y)
    s.a = s.a * 2
    return s.a + s.b


@case
def class_body(x, y):
    class Local:
        factor = 3

        def apply(self, t):
            return t * self.factor
    return Local().apply(x) + y


@case
def class_body_closure(x, y):
    class Local(Base):
        def scale(self, factor):
            return super().scale(factor) + y
    return Local(x).scale(2)


counter = Base(3)


@case
def class_outside_write(x, y):
    counter.last = x.shape[0]
    counter.value = 4
    return x * counter.value + y


@case
def class_missing_attribute(x, y):
    try:
        return x * counter.nothing
    except AttributeError:
        return x + y


# Exceptions


class Stop(Exception):
    def __init__(self, value):
        super().__init__("stop")
        self.value = value


def raises(value):
    raise Stop(value)


@case
def exception_custom(x, y):
    try:
        raises(x)
    except Stop as stop:
        return stop.value + y


@case
def exception_key_error(x, y):
    table = {"a": x}
    try:
        z = table["b"]
    except KeyError:
        z = y
    return z + x


TABLE = {"a": 1}


@case
def exception_key_error_outside(x, y):
    try:
        z = TABLE["b"]
    except KeyError as error:
        z = len(error.args)
    return z * y + x


@case
def exception_index_error(x, y):
    try:
        return [x][3]
    except (IndexError, ValueError):
        return x + y


@case
def exception_finally(x, y):
    done = []
    try:
        z = x + y
    finally:
        done.append(1)
    return z * len(done)


@case
def exception_else(x, y):
    try:
        z = x + y
    except ValueError:
        return x
    else:
        z = z * 2
    return z


@case
def exception_stop_iteration(x, y):
    it = iter([x])
    next(it)
    try:
        next(it)
    except StopIteration:
        return x + y


@case
def exception_nested(x, y):
    try:
        try:
            int("a")
        except ValueError as error:
            raise KeyError("b") from error
    except KeyError:
        return x + y


@case
def exception_reraised(x, y):
    try:
        try:
            raise ValueError("a")
        except ValueError:
            z = x * 2
            raise
    except Exception as error:
        return z + y * len(str(error))


@case
def exception_attribute_default(x, y):
    try:
        size = x.nothing
    except AttributeError:
        size = x.shape[0]
    return x * size + y


@case
def exception_assert_caught(x, y):
    try:
        assert x.shape[0] == 3, "rows"
    except AssertionError as error:
        return x + y * len(error.args)


@case
def exception_in_loop(x, y):
    out = x
    for i in range(4):
        try:
            if i == 1:
                continue
            if i == 3:
                raise ValueError
            out = out + y * i
        except ValueError:
            break
        finally:
            out = out + 1
    return out


@case
def exception_type_error(x, y):
    try:
        len(3)
    except TypeError:
        return x + y


@case
def exception_shape_error(x, y):
    try:
        return x @ y
    except RuntimeError:
        return x @ y.t()


@case
def exception_import_error(x, y):
    try:
        import torch.nothing
    except ImportError:
        return x + y


# Context managers


@case
def context_no_grad(x, y):
    with torch.no_grad():
        z = x * weight
    return z + y


weight = nn.Parameter(torch.ones(3))


@case
def context_enable_grad(x, y):
    with torch.no_grad():
        with torch.enable_grad():
            z = (x * weight).requires_grad
        return x + y * z


@torch.no_grad()
def without_grad(x):
    return x * weight


@case
def context_no_grad_decorator(x, y):
    return without_grad(x) + y


@torch.inference_mode()
def inferred(x):
    return x * weight


@case
def context_inference_mode(x, y):
    with torch.inference_mode():
        z = x * weight + y
        return z * 1


@case
def context_inference_decorator(x, y):
    return inferred(x).shape[0] * y


@case
def context_set_grad_enabled(x, y):
    with torch.set_grad_enabled(False):
        z = x * weight
    torch.set_grad_enabled(True)
    return z + y


@case
def context_autocast(x, y):
    with torch.autocast("cpu", dtype=torch.bfloat16):
        z = x @ y.t()
    return z.float() + 1


@case
def context_autocast_off(x, y):
    with torch.autocast("cpu", enabled=False):
        z = x @ y.t()
    return z + 1


@case
def context_record_function(x, y):
    with torch.profiler.record_function("part"):
        z = x + y
    return z * 2


@case
def context_autograd_record(x, y):
    with torch.autograd.profiler.record_function("part"):
        z = x + y
    return z * 2


@case
def context_nullcontext(x, y):
    with contextlib.nullcontext(3) as n:
        return x * n + y


@contextlib.contextmanager
def scaling(t, factor):
    yield t * factor


@case
def context_contextmanager(x, y):
    with scaling(x, 2) as z:
        return z + y


@scaling(torch.ones(1), 2)
def decorated(x):
    return x * 2


@case
def context_contextmanager_decorator(x, y):
    return decorated(x) + y


@contextlib.contextmanager
def flagged(holder):
    before = holder.value
    holder.value = 9
    try:
        yield
    finally:
        holder.value = before


@case
def context_restores(x, y):
    holder = Base(2)
    with flagged(holder):
        z = x * holder.value
    return z + y * holder.value


@case
def context_exit_stack(x, y):
    with contextlib.ExitStack() as stack:
        z = stack.enter_context(scaling(x, 3))
        stack.enter_context(torch.no_grad())
        z = z + y
    return z


@case
def context_suppress(x, y):
    with contextlib.suppress(KeyError):
        {}["a"]
    return x + y


@case
def context_closing_swallows(x, y):
    class Swallow:
        def __enter__(self):
            return self

        def __exit__(self, kind, value, trace):
            return kind is ValueError
    with Swallow():
        raise ValueError("gone")
    return x + y


@case
def context_several(x, y):
    with torch.no_grad(), scaling(x, 2) as z, contextlib.nullcontext():
        return z + y


@case
def context_sdpa_kernel(x, y):
    with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH):
        return F.scaled_dot_product_attention(x[None, None], y[None, None], y[None, None])


# Generators and comprehensions


def pieces(*tensors):
    for t in tensors:
        yield t * 2


def delegated(*tensors):
    count = yield from pieces(*tensors)
    yield tensors[0] + (count or 1)


@case
def generator_for(x, y):
    out = 0
    for t in pieces(x, y):
        out = out + t
    return out


@case
def generator_yield_from(x, y):
    return torch.stack(list(delegated(x, y)))


@case
def generator_send(x, y):
    def accumulate():
        total = 0
        while True:
            value = yield total
            if value is None:
                return
            total = total + value
    g = accumulate()
    next(g)
    g.send(x)
    out = g.send(y)
    g.close()
    return out * 2


@case
def generator_expression_sum(x, y):
    return sum(t * 2 for t in (x, y)) + sum(i for i in range(3))


@case
def generator_expression_any(x, y):
    return x + y if any(t.dim() == 2 for t in (x, y)) and all(t is not None for t in (x, y)) else x


@case
def generator_to_tuple(x, y):
    a, b = (t + 1 for t in (x, y))
    return torch.cat(tuple(t * 2 for t in (a, b))) + max(t.shape[0] for t in (x, y))


@case
def generator_nested(x, y):
    return sum(a * b for a in (x, y) for b in (x, y) if a is not b)


@case
def generator_in_join(x, y):
    return x * len(",".join(str(s) for s in x.shape)) + y


@case
def comprehension_list(x, y):
    return torch.stack([t * i for i, t in enumerate((x, y)) if t is not None])


@case
def comprehension_dict(x, y):
    return sum({k: v * 2 for k, v in {"a": x, "b": y}.items()}.values())


@case
def comprehension_set(x, y):
    return x * len({t.shape for t in (x, y)}) + y * len({i % 2 for i in range(5)})


@case
def comprehension_nested(x, y):
    rows = [[x[i, j] * j for j in range(2)] for i in range(2)]
    return torch.stack([torch.stack(r) for r in rows]) + y[:2, :2]


@case
def walrus(x, y):
    if (n := x.shape[0]) > 2 and (z := x * n) is not None:
        return z + y
    return x


# Functions


@case
def closure_nonlocal(x, y):
    total = x

    def add(t):
        nonlocal total
        total = total + t
    add(y)
    add(x)
    return total


@case
def closure_factory(x, y):
    def scaler(n):
        return lambda t: t * n
    return scaler(2)(x) + [scaler(i) for i in range(3)][1](y)


def variadic(first, *rest, factor=1, **named):
    return first + sum(rest) * factor + sum(named.values()) + len(named)


@case
def call_star(x, y):
    return variadic(x, *[y, x], factor=2, **{"a": y}) + variadic(*(x,)) + variadic(x, b=y)


def positional(a, /, b, *, c=3):
    return a * b + c


@case
def call_positional_only(x, y):
    return positional(x, y) + positional(x, b=y, c=2)


@case
def call_recursion(x, y):
    def power(t, n):
        return t if n == 0 else power(t * y, n - 1)
    return power(x, 3)


@case
def call_lambda_default(x, y):
    return (lambda t, k=2: t * k)(x) + (lambda *a: sum(a))(x, y)


@case
def call_bound_in_table(x, y):
    table = {"relu": torch.relu, "tanh": F.tanh, "twice": lambda t: t * 2}
    return table["relu"](x) + table["twice"](y) + sum(f(x) for f in table.values())


TOTAL = 0


@case
def global_write(x, y):
    global TOTAL
    TOTAL = x.shape[0]
    return x * TOTAL + y


@case
def delete_names(x, y):
    z = x + y
    d = {"a": z, "b": x}
    del d["a"], x
    return z * len(d)


@case
def match_values(x, y):
    match x.dim(), "mode":
        case (1, _):
            return x
        case (2, "mode" | "other") if y is not None:
            return x + y
    return y


@case
def match_patterns(x, y):
    out = x
    for item in [[x, y], {"k": y, "n": 2}, Base(x), 3, "text", None]:
        match item:
            case [a, b]:
                out = out + a * b
            case {"k": t, **rest}:
                out = out + t * len(rest)
            case Base(value=v):
                out = out + v
            case int(n):
                out = out * n
            case str() | None:
                out = out + 1
    return out


@case
def conditional_chain(x, y):
    z = x if x.shape[0] > 3 else y
    return z + (y if 1 < x.dim() < 3 else x) if x is not y else x


@case
def while_loop(x, y):
    i = 0
    while i < 3:
        x = x + y * i
        i += 1
    else:
        x = x * 2
    return x


# Modules


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(3, 3) for _ in range(2)])
        self.heads = nn.ModuleDict({"a": nn.Linear(3, 3), "b": nn.Identity()})
        self.scales = nn.ParameterList([nn.Parameter(torch.ones(3)) for _ in range(2)])
        self.table = nn.ParameterDict({"s": nn.Parameter(torch.ones(3))})
        self.sequence = nn.Sequential(nn.Linear(3, 3), nn.ReLU(), nn.Dropout(0.5))
        self.register_buffer("offset", torch.ones(3))
        for i, p in enumerate(self.parameters()):
            with torch.no_grad():
                p.fill_(0.1 * (i + 1))


block = Block().eval()


@case
def module_list(x, y):
    for layer in block.layers:
        x = layer(x)
    for i, layer in enumerate(block.layers):
        x = x + layer(y) * i
    return (x + block.layers[-1](y) + len(block.layers) + block.layers[:1][0](x)).detach()


@case
def module_dict(x, y):
    out = x
    for name, head in block.heads.items():
        out = out + head(y) * len(name)
    return (out + block.heads["a"](x) + ("b" in block.heads) + len(block.heads.keys())).detach()


@case
def module_sequential(x, y):
    return (block.sequence(x) + block.sequence[0](y) + len(block.sequence) + sum(m(x) for m in block.sequence)).detach()


@case
def module_parameter_list(x, y):
    for scale in block.scales:
        x = x * scale
    return (x + block.scales[0] + block.table["s"] + y).detach()


@case
def module_parameters(x, y):
    return (x + sum(p.sum() for p in block.parameters()) + len(list(block.named_parameters())) + y).detach()


@case
def module_first_parameter(x, y):
    device = next(block.parameters()).device
    dtype = next(p.dtype for p in block.parameters() if p.is_floating_point())
    return x.to(device).to(dtype) + y


@case
def module_children(x, y):
    for child in block.sequence.children():
        x = child(x)
    for name, module in block.named_modules():
        if isinstance(module, nn.Linear):
            x = x + module(y) * len(name)
    return x.detach()


@case
def module_buffers_state(x, y):
    return x * block.offset + y * len(list(block.buffers())) + len(block._buffers) + block.training


hooked = nn.Linear(3, 3)
hooked.register_forward_pre_hook(lambda module, args: (args[0] * 2,))
hooked.register_forward_hook(lambda module, args, output: output + 1)
with torch.no_grad():
    hooked.weight.fill_(0.1), hooked.bias.fill_(0.2)


@case
def module_hooks(x, y):
    return (hooked(x) + y).detach()


@case
def module_made_inside(x, y):
    return nn.ReLU()(x) + nn.Flatten(0)(y).sum() + nn.Softmax(dim=-1)(x)


@case
def functional_mix(x, y):
    image = x[None, None]
    z = F.interpolate(image, scale_factor=2, mode="bilinear", align_corners=False)
    z = F.pad(z, (1, 1, 0, 2), value=0.5)
    z = F.max_pool2d(z, 2) + F.avg_pool2d(z, 2)
    z = F.adaptive_avg_pool2d(z, (1, 2)).flatten()
    return z.sum() + F.layer_norm(x, (3,)) + F.gelu(y) + F.softmax(x, dim=1) + F.normalize(y)


@case
def functional_losses(x, y):
    return F.mse_loss(x, y) + F.cross_entropy(x, torch.tensor([0, 1, 2, 0])) + F.smooth_l1_loss(x, y) + F.cosine_similarity(x, y).sum()


@case
def tensor_methods(x, y):
    a, b = x.chunk(2)
    rows = x.split([1, 3])
    v, i = y.max(dim=1)
    return (a * b).sum() + rows[1].sum() + v[:, None] + i.float()[:, None] + x.new_zeros(3) + torch.full_like(x, 2.0) + x.numel() + x.size()[0] + y.view(*x.shape)


@case
def tensor_constructors(x, y):
    n, m = x.shape
    return x + torch.arange(m, device=x.device, dtype=x.dtype) + torch.tensor([1.0, 2.0, 3.0]) + torch.ones(n, 1) * torch.linspace(0, 1, m) + torch.eye(n, m) + torch.zeros_like(y)


@case
def tensor_einsum(x, y):
    return torch.einsum("ij,kj->ik", x, y) + torch.tensordot(x, y, dims=([1], [1]))


@case
def checkpointed(x, y):
    return torch.utils.checkpoint.checkpoint(lambda a: a * 2, x, use_reentrant=False) + y


cached_function = functools.lru_cache(maxsize=4)(lambda n: torch.arange(n).float())


@case
def cached_tensor(x, y):
    return x + cached_function(3) + y


@case
def finfo_dtypes(x, y):
    return x.clamp(min=torch.finfo(x.dtype).min / 2) + torch.iinfo(torch.int8).max + y.to(torch.float64).to(x) + (x.dtype == torch.float32) + x.is_floating_point()
