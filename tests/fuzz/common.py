"""What random programs use: classes and functions of their own, and `show` and `fail`, which note values for the comparison.

Everything is made again by `reset()` for each program, so that programs do not see one another's changes.
"""

import collections
import contextlib
import dataclasses
import enum
import functools
import itertools
import json
import math
import re
import types

import torch
import torch.utils._python_dispatch

import devices

try:
    from dynrun import disable
except ImportError:
    def disable(function):
        return function

NOTES = []
NUDGE = 0.0  # by which share of themselves the values of `seq` are moved


@functools.lru_cache(maxsize=None)
def smooth(shape, start):
    with torch.inference_mode(False), torch.no_grad():
        return torch.sin(torch.arange(math.prod(shape), dtype=torch.float64) * 1.7 + start + 0.3).reshape(shape).float()


def seq(*shape, start=0.0):
    """A tensor of smooth values without a pattern; `start` picks another one."""
    values = smooth(shape, start).to(devices.DEVICE, copy=True)
    return values.mul_(1 + NUDGE) if NUDGE else values


class Undefined(BaseException):
    """Ends a program that torch has left with a tensor larger than its memory: what it does next is anybody's guess."""


def check_room(data):
    """An operator that may not resize a storage (numpy has seen it) raises when the tensor has its new sizes already."""
    reach = sum((size - 1) * stride for size, stride in zip(data.shape, data.stride()))
    if data.numel() and (data.storage_offset() + 1 + reach) * data.element_size() > data.untyped_storage().nbytes():
        raise Undefined("a tensor larger than its storage")


class Picture:
    """Turns values into nested tuples that can be compared after the values have changed or died."""

    def __init__(self):
        self.known, self.storages, self.alive = {}, {}, []

    def graph(self, node, depth=0):
        if node is None or depth > 6:
            return ()
        return (node.name(), *[self.graph(following, depth + 1) for following, _ in node.next_functions])

    def tensor(self, value):
        data = value.detach()
        shown = data if data.device.type == "cpu" else data.cpu()
        plain = data.layout is torch.strided and not data.is_quantized
        dtype = data.dtype
        if plain:
            check_room(data)
        if dtype is torch.float32 and plain and not data.is_neg():
            kind, content = "f4", shown.numpy().tobytes()
        else:
            shown = shown if plain else shown.to_dense()
            if dtype.is_complex:
                shown = torch.view_as_real(shown.resolve_conj())
            kind = "f8" if shown.dtype.is_floating_point else "i"
            content = shown.to(torch.float64 if kind == "f8" else torch.int64).resolve_neg().numpy().tobytes()
        place = self.storages.setdefault(data.untyped_storage()._cdata, len(self.storages)) if plain else -1
        inference, leaf = value.is_inference(), value.is_leaf
        return ("tensor", type(value).__name__, str(dtype), data.device.type, tuple(value.shape), value.stride() if plain else None, value.storage_offset() if plain else 0, value.requires_grad, leaf,
                self.graph(value.grad_fn), None if inference else value._version, place, inference, self.of(value.grad) if leaf else None, self.of(value.__dict__) if value.__dict__ else None, (kind, content))

    def of(self, value, depth=0):
        kind = type(value)
        if kind in SCALARS:
            return (kind.__name__, str(value))
        if kind is float:
            return ("float", value)
        key = id(value)
        known = self.known.get(key)
        if known is not None:
            return ("same", known)
        self.known[key] = len(self.known)
        self.alive.append(value)
        if isinstance(value, torch.Tensor):
            return self.tensor(value)
        if depth > 12:
            return ("deep",)
        if kind is dict:
            return ("dict", *[(self.of(name, depth + 1), self.of(item, depth + 1)) for name, item in value.items()])
        if kind is list or kind is tuple:
            return (kind.__name__, *[self.of(item, depth + 1) for item in value])
        return self.rare(value, depth)

    def rare(self, value, depth):
        if isinstance(value, (bool, int, str, complex)):
            return (type(value).__name__, str(value))
        if isinstance(value, float):
            return ("float", value)
        name = type(value).__name__
        if isinstance(value, enum.Enum):
            return (name, value.name)
        if isinstance(value, dict):
            return (name, *[(self.of(key, depth + 1), self.of(item, depth + 1)) for key, item in value.items()])
        if isinstance(value, (set, frozenset)):
            return (name, *sorted(map(repr, value)))
        if isinstance(value, (list, tuple, collections.deque)):
            return (name, *[self.of(item, depth + 1) for item in value])
        if isinstance(value, torch.nn.Module):
            own = {key: item for key, item in vars(value).items() if not key.startswith("_") or key in ("_parameters", "_buffers", "_modules")}
            return (name, self.of(own, depth + 1))
        if isinstance(value, types.FunctionType):
            cells = []
            for cell in value.__closure__ or ():
                try:
                    cells.append(self.of(cell.cell_contents, depth + 1))
                except ValueError:
                    cells.append("empty")
            return ("function", value.__qualname__, self.of(value.__defaults__, depth + 1), self.of(value.__kwdefaults__, depth + 1), *cells)
        if isinstance(value, types.MethodType):
            return ("method", value.__func__.__qualname__, self.of(value.__self__, depth + 1))
        if isinstance(value, types.GeneratorType):
            frame = value.gi_frame
            return ("generator", value.__qualname__, None if frame is None else frame.f_lasti)
        if isinstance(value, BaseException):
            return self.exception(value)
        if isinstance(value, (types.ModuleType, type)):
            return (name, value.__name__)
        if hasattr(value, "__dict__"):
            return (name, self.of(vars(value), depth + 1))
        return (name, ADDRESS.sub("0x", repr(value)))

    def exception(self, error, depth=0):
        frames, traceback = [], error.__traceback__
        while traceback is not None:
            code = traceback.tb_frame.f_code
            frames.append((code.co_filename.rsplit("/", 1)[-1], code.co_name, traceback.tb_lineno, place_of(code, traceback.tb_lasti // 2)))
            traceback = traceback.tb_next
        text = ADDRESS.sub("0x", str(error))
        chain = [self.exception(item, depth + 1) if item is not None and depth < 4 else None for item in (error.__cause__, error.__context__)]
        inner = [self.exception(item, depth + 1) for item in error.exceptions] if isinstance(error, BaseExceptionGroup) else []
        return (type(error).__name__, text, tuple(frames), tuple(chain), tuple(inner), error.__suppress_context__, tuple(getattr(error, "__notes__", ())))


ADDRESS = re.compile(r"0x[0-9a-f]+")
SCALARS = frozenset({type(None), bool, int, str, complex})


PLACES = {}  # by code's address and instruction; the code itself keeps the address its own


def place_of(code, instruction):
    """The place in the line; which of an instruction's own cache entries it is says only how CPython made a call."""
    known = PLACES.get((id(code), instruction))
    if known is None:
        known = PLACES[id(code), instruction] = code, next(itertools.islice(code.co_positions(), instruction, None), None)
    return known[1]


@disable
def show(*values):
    """Notes what the values are now."""
    picture = Picture()
    NOTES.append(tuple(picture.of(value) for value in values))


@disable
def fail(error):
    """Notes an exception: type, text, the lines of its traceback, what it follows from."""
    if "storage that is not resizable" in str(error):
        raise Undefined(str(error))
    NOTES.append(Picture().exception(error))


# Classes that no program changes: made once. Like a program's own they come from `__main__`.
SHARED_SOURCE = '''
class Color(enum.Enum):
    RED, GREEN, BLUE = 1, 2, 3


Point = collections.namedtuple("Point", "left right", defaults=[0])
Record3 = collections.namedtuple("Record3", "a b c")


class Custom(Exception):
    pass


@dataclasses.dataclass
class Record:
    value: object
    size: int = 2

    def scaled(self, k):
        return self.value * k + self.size


class Swallow:
    def __enter__(self):
        return self

    def __exit__(self, kind, error, trace):
        return kind is not None and issubclass(kind, (ValueError, IndexError))


def shifted(x, k):
    """The kernel of an operator: the dispatcher calls it."""
    y = x * 1
    y.add_(k)
    return y


library = torch.library.Library("fuzzed", "DEF")
library.define("shifted(Tensor x, float k) -> Tensor")
library.impl("shifted", shifted, "CompositeImplicitAutograd")


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.w = torch.nn.Parameter(torch.tensor(0.75))
        self.b = torch.nn.Parameter(torch.tensor([0.25]))
        self.register_buffer("scale", torch.tensor(0.5))
        self.sub = torch.nn.Sequential(torch.nn.ReLU(), torch.nn.Dropout(0.25))
        self.norm = torch.nn.BatchNorm1d(3)
        self.linear = torch.nn.Linear(3, 3)
        with torch.no_grad():
            self.linear.weight.copy_(seq(3, 3))
            self.linear.bias.copy_(seq(3))
        self.steps, self.rate = 0, 0.5

    def forward(self, x):
        self.steps += 1
        if x.dim() == 2 and x.shape[-1] == 3 and x.dtype == self.linear.weight.dtype:
            x = self.linear(x)
            if x.shape[0] > 1:
                x = self.norm(x)
        return self.sub(x) * self.w + self.b * self.scale
'''

# The rest is made anew by `reset_into`, in a namespace that the programs' `import *` does not bind early.
SOURCE = '''
class Noting(torch.utils._python_dispatch.TorchDispatchMode):
    seen = torch.zeros(1)

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        Noting.seen.add_(1)
        return function(*args, **(kwargs or {}))


class Box:
    made, raw = 0, 0.5
    __match_args__ = ("size",)

    def __init__(self, value, size=2):
        self.value, self.size, self.items = value, size, []

    @classmethod
    def make(cls, value):
        cls.made = (cls.made + 1) % 5
        return cls(value)

    @staticmethod
    def plain(value):
        return value

    @property
    def double(self):
        return self.value * 2

    @property
    def scaled(self):
        return self.value * self.size

    @scaled.setter
    def scaled(self, k):
        self.value = self.value * k

    def method(self, k=1, *rest):
        return self.value * k + len(rest)

    def bump(self):
        self.size = (self.size + 1) % 4
        return self

    def __add__(self, other):
        return type(self)(self.value + (other.value if isinstance(other, Box) else other))

    def __iadd__(self, other):
        self.value = self.value + other
        return self

    def __mul__(self, other):
        return Box(self.value * other) if isinstance(other, (int, float)) else NotImplemented

    def __rmul__(self, other):
        return Box(other * self.value + 0.5)

    def __neg__(self):
        return Box(-self.value)

    def __call__(self, k=1):
        return self.value + k

    def __getitem__(self, index):
        if index > 2:
            raise IndexError(index)
        return self.value[0] * index

    def __setitem__(self, index, value):
        self.value, self.size = value, index

    def __len__(self):
        return self.size

    def __bool__(self):
        return self.size != 3

    def __eq__(self, other):
        return isinstance(other, Box) and self.size == other.size

    def __lt__(self, other):
        return self.size < other.size

    def __hash__(self):
        return 7

    def __getattr__(self, name):
        if name.startswith("missing"):
            return self.value + len(name)
        raise AttributeError(name)

    def __iter__(self):
        yield self.value
        yield self.value * 2

    def __repr__(self):
        return f"{type(self).__name__}(size={self.size})"

    def __contains__(self, item):
        return item == self.size


class Child(Box):
    __slots__ = ("slot",)

    def __init__(self, value):
        super().__init__(value, 1)
        self.slot = 3

    def method(self, k=1, *rest):
        return super().method(k, *rest) * self.slot

    def __setattr__(self, name, value):
        object.__setattr__(self, name, value)


class Scope:
    def __init__(self, name):
        self.name = name

    def __enter__(self):
        LOG.append("in " + self.name[:3])
        return self

    def __exit__(self, kind, error, trace):
        LOG.append("out" if kind is None else kind.__name__)
        del LOG[:-6]


@contextlib.contextmanager
def managed(k):
    LOG.append(k)
    try:
        yield k + 1
    except KeyError:
        LOG.append("key")
        raise
    finally:
        del LOG[:-6]
        LOG.append("end")


def parts(x, count):
    for index in range(count):
        yield x * index


def chained(x, count):
    yield x
    got = yield from parts(x, count)
    yield x + 1


def pair(a, b):
    return a, b


def scaled(a, b=2, *rest, k=1, **more):
    if k == 3:
        return a
    return a * b + k + sum(rest) + len(more)


def recursive(x, n):
    return x if n <= 0 else recursive(x * 0.5, n - 1) + n


def early(x, n):
    if n > 3:
        return x
    for i in range(n):
        if x.sum() > 1.23:
            return x * i
    return x + n


def counted_by(function):
    @functools.wraps(function)
    def wrapper(*args, **kwargs):
        wrapper.calls += 1
        return function(*args, **kwargs)
    wrapper.calls = 0
    return wrapper


@counted_by
def counted(x):
    return x + counted.calls % 3


def twice(function):
    return lambda *args, **kwargs: function(*args, **kwargs) * 2


def reduce_all(values, start):
    total = start
    for value in values:
        total += value.mean()
    return total


@functools.lru_cache(maxsize=None)
def cached(n):
    return n * 2 + 1


def train(x):
    optimizer.zero_grad()
    loss = net(x).float().pow(2).mean()
    loss.backward()
    optimizer.step()
    return loss.detach()


def back(x):
    if x.requires_grad and x.dtype.is_floating_point:
        (x * 0.5).sum().backward()
        return True
    return False


def bump(k=1):
    LOG.append(k)
    del LOG[:-6]
    config.level = (config.level + k) % 4


class Model:
    def __init__(self):
        self.count, self.last, self.total, self.history, self.seen = 0, seq(1, 1), torch.zeros(()), [], {}
        self.queue, self.kind, self.record, self.point = collections.deque(maxlen=3), Color.RED, Record(seq(1, 1)), Point(1)
        self.names, self.flag, self.cache, self.buffer, self.callback = set(), True, {}, torch.zeros(()), None
        self.stream, self.items, self.table, self.grads = parts(seq(1, 1), 50), [], {"a": seq(1, 1)}, None


class Peer:
    def __init__(self, value):
        self.n, self.value, self.seen = 1, value, {}

    def bump(self, k):
        self.n = (self.n + k) % 5
        return self.n


class Asking:
    """Attributes whose getters may raise AttributeError, so that __getattr__ is asked."""
    names = 0

    @property
    def level(self):
        return self.given + 1

    @property
    def scaled(self):
        return self.kept * 0.5

    def __getattr__(self, name):
        Asking.names = (Asking.names + 1) % 5
        if name in ("level", "scaled"):
            return 3
        raise AttributeError(name)


class Giving:
    """An iterator in Python, whose numbers lie in objects and globals that C code cannot get at from here."""
    def __init__(self, count, kind=0):
        self.count, self.kind = count % 4, kind % 3

    def __iter__(self):
        return self

    def __next__(self):
        if self.count <= 0:
            raise StopIteration
        self.count -= 1
        return (left.n, right.n, Elsewhere.n)[self.kind] + self.count % 2


class Holding:
    """An iterator of C code that Python code gives to C code."""
    def __init__(self, make):
        self.make = make

    def __iter__(self):
        return self.make()


class Elsewhere:
    """Special methods that answer with numbers from elsewhere."""
    n = 1

    def __len__(self):
        return left.n

    def __bool__(self):
        return right.n % 2 == 1

    def __index__(self):
        return (left.n + right.n) % 4

    def __int__(self):
        return left.n * 2

    def __float__(self):
        return left.n * 0.25

    def __round__(self, digits=None):
        return right.n * 2

    def __contains__(self, item):
        return item == left.n

    def __getitem__(self, index):
        if index > right.n % 3:
            raise IndexError
        return left.n + index

    def __reversed__(self):
        return Giving(2, 1)

    def __repr__(self):
        return f"<{left.n}>"


class Ledger(dict):
    """Methods that pass on to C's own behind super(), where code that nobody sees through stands in between."""
    made = 0

    @classmethod
    def fromkeys(cls, keys, value=None):
        cls.made = (cls.made + 1) % 7
        return super().fromkeys(json.loads(keys), value)

    def get(self, key, otherwise=None):
        return super().get(json.loads(key), otherwise)


class Mark:
    """A class that is given special methods, and loses them, while C code uses its objects."""
    count = 0

    def __init__(self, n):
        self.n = n

    def __lt__(self, other):
        return self.n < other.n

    def __repr__(self):
        return f"Mark({self.n})"


def unmark():
    for name in ("__bool__", "__len__", "__eq__", "__hash__", "__add__", "__radd__"):
        if name in vars(Mark):
            delattr(Mark, name)


SPACE = """
level, scale, table = 1, 0.5, {}

def tick(k=1):
    global level
    level = (level + k) % 4
    return level

def scaled(v):
    return v * level * scale + len(table)
"""
left, right = PEERS = [Peer(seq(1, 1)), Peer(seq(1, 1, start=2.0))]
asking, elsewhere = Asking(), Elsewhere()
MARKS = [Mark(1), Mark(2), Mark(3)]
space = types.ModuleType("space")
exec(SPACE, vars(space))
LOG = []
config = types.ModuleType("config")
config.level, config.scale, config.last = 1, 0.5, None
box = Box(seq(1, 1))
net = fresh_net()
NET_LIST = [net, torch.nn.Tanh()]
optimizer = torch.optim.SGD([net.w, net.b], lr=0.1)
hooks = []
'''
CODE = devices.compiled(SOURCE, "common_source")
MODULES = {"collections": collections, "contextlib": contextlib, "dataclasses": dataclasses, "enum": enum, "functools": functools, "json": json, "types": types, "torch": torch, "seq": seq}
SHARED = {"__name__": "__main__", **MODULES}
exec(compile(SHARED_SOURCE, "common_source", "exec"), SHARED)
LIBRARY = SHARED["library"]  # its operators live as long
SHARED = {name: SHARED[name] for name in ("Color", "Point", "Record3", "Custom", "Record", "Swallow", "Net")}
with devices.on_cpu():
    TEMPLATE = SHARED["Net"]()


def fresh_module(template):
    """A module like the template, with its own tensors and tables: what its constructor would make, in less time."""
    made = object.__new__(type(template))
    for name, value in vars(template).items():
        if name == "_modules":
            value = {key: fresh_module(inner) for key, inner in value.items()}
        elif name in ("_parameters", "_buffers"):
            value = {key: item if item is None else torch.nn.Parameter(item.detach().to(devices.DEVICE, copy=True)) if name == "_parameters" else item.to(devices.DEVICE, copy=True) for key, item in value.items()}
        elif isinstance(value, (dict, set)):
            value = value.copy()
        made.__dict__[name] = value
    return made


def fresh_net():
    return fresh_module(TEMPLATE)


def reset_into(space):
    """Puts fresh classes, functions and objects into the namespace of a program."""
    space.update(MODULES)
    space.update(SHARED)
    space["show"], space["fail"], space["fresh_net"] = show, fail, fresh_net
    exec(CODE, space)
