"""The standard library and containers: each function takes two float tensors of shape 4x3 and uses one construct between operators. For capture.py."""

import collections
import copy
import dataclasses
import enum
import functools
import itertools
import math
import operator
import random
import time
import typing

import torch
from torch.utils import _pytree as pytree

CASES = {}


def case(function):
    CASES[function.__name__] = function
    return function


# functools


class Plain:
    def __init__(self, side):
        self.side = side


square = Plain(3)


def scaled(x, factor, *, shift=0):
    return x * factor + shift


@case
def functools_partial(x, y):
    return functools.partial(scaled, factor=2)(x) + functools.partial(scaled, y, shift=1)(3)


double = functools.partial(scaled, factor=2)


@case
def functools_partial_global(x, y):
    return double(x, shift=2) + y


@case
def functools_partial_builtin(x, y):
    return functools.partial(torch.add, alpha=2)(x, y) + functools.partial(max, 1)(2)


class Partial:
    def scale(self, x, factor):
        return x * factor

    triple = functools.partialmethod(scale, factor=3)


@case
def functools_partialmethod(x, y):
    return Partial().triple(x) + y


@case
def functools_reduce(x, y):
    return functools.reduce(lambda a, b: a * b + 1, [x, y, x]) + functools.reduce(operator.add, [1, 2], 3)


@functools.lru_cache(maxsize=None)
def cached(n):
    return n * 2


@functools.cache
def cached_table(n, flag=False):
    return tuple(range(n))


@case
def functools_lru_cache(x, y):
    return x * cached(3) + y * len(cached_table(3, flag=True))


def traced(function):
    @functools.wraps(function)
    def run(*args, **kwargs):
        return function(*args, **kwargs) + 1
    return run


@traced
def decorated(x, y=2):
    return x * y


@case
def functools_wraps(x, y):
    return decorated(x) + decorated(x, y=y) + len(decorated.__name__)


@case
def functools_wraps_inside(x, y):
    @traced
    def inner(t):
        return t * 3
    return inner(x) + y


@functools.singledispatch
def dispatched(value):
    return 1


@dispatched.register
def _(value: int):
    return 2


@dispatched.register(torch.Tensor)
def _(value):
    return value * 3


@case
def functools_singledispatch(x, y):
    return dispatched(x) + dispatched(1) + dispatched("a") + y


class Lazy:
    def __init__(self, value):
        self.value = value

    @functools.cached_property
    def twice(self):
        return self.value * 2


@case
def functools_cached_property(x, y):
    lazy = Lazy(x)
    return lazy.twice + lazy.twice * y


@functools.total_ordering
class Ordered:
    def __init__(self, n):
        self.n = n

    def __eq__(self, other):
        return self.n == other.n

    def __lt__(self, other):
        return self.n < other.n


@case
def functools_total_ordering(x, y):
    return x + y if Ordered(1) <= Ordered(2) and Ordered(3) > Ordered(2) and not Ordered(1) == Ordered(2) else x


@case
def functools_cmp_to_key(x, y):
    return x * sorted([2, 1], key=functools.cmp_to_key(lambda a, b: a - b))[0] + y


# itertools


@case
def itertools_chain(x, y):
    return sum(itertools.chain([x], (y,))) + sum(itertools.chain.from_iterable([[1, 2], [3]]))


@case
def itertools_product(x, y):
    out = x
    for i, j in itertools.product(range(2), repeat=2):
        out = out + y * (i - j)
    return out


@case
def itertools_permutations(x, y):
    out = x
    for a, b in itertools.permutations([x, y], 2):
        out = out + a * 2 - b
    for a, b in itertools.combinations([x, y, x], 2):
        out = out + a * b
    return out


@case
def itertools_accumulate(x, y):
    return torch.stack(list(itertools.accumulate([x, y, x]))) + list(itertools.accumulate([1, 2], operator.mul, initial=3))[-1]


@case
def itertools_islice(x, y):
    out = x
    for i, t in zip(itertools.count(1), itertools.islice([x, y, x], 1, None)):
        out = out + t * i
    return out


@case
def itertools_groupby(x, y):
    out = x
    for key, group in itertools.groupby([("a", x), ("a", y), ("b", x)], key=lambda p: p[0]):
        out = out + len(key) * sum(t for _, t in group)
    return out


@case
def itertools_misc(x, y):
    a = list(itertools.zip_longest([x, y], [1], fillvalue=2))
    b = list(itertools.starmap(torch.add, [(x, y)]))
    c = list(itertools.repeat(2, 3))
    d = list(itertools.takewhile(lambda v: v < 2, [1, 2, 3])) + list(itertools.dropwhile(lambda v: v < 2, [1, 2, 3]))
    return a[0][0] * a[1][1] + b[0] + sum(c) + sum(d)


@case
def itertools_pairwise(x, y):
    return sum(a * b for a, b in itertools.pairwise([x, y, x])) + len(list(itertools.batched([1, 2, 3], 2)))


@case
def itertools_cycle_tee(x, y):
    cycle = itertools.cycle([1, 2])
    a, b = itertools.tee([x, y])
    return next(cycle) * next(a) + next(cycle) * next(b) + list(itertools.compress([1, 2], [0, 1]))[0] + list(itertools.filterfalse(None, [0, 1]))[0]


# operator, math


@case
def operator_functions(x, y):
    return (operator.add(x, y) + operator.mul(x, 2) - operator.neg(y) + operator.getitem([1, 2], 1) + operator.itemgetter(1, 0)((1, 2))[0]
            + operator.attrgetter("side")(square) + operator.truediv(4, 2) + operator.methodcaller("sum", 0)(x) + operator.matmul(x, y.t()).sum())


@case
def operator_in_place(x, y):
    z = x.clone()
    operator.iadd(z, y)
    return operator.setitem([1], 0, 2) or z + operator.index(3) + operator.length_hint([1])


@case
def math_functions(x, y):
    return (x * math.sqrt(2) + y / math.sqrt(x.size(-1)) + math.pi + math.floor(2.5) + math.ceil(2.1) + math.log(3, 2) + math.prod([1, 2])
            + math.gcd(4, 6) + math.isclose(1, 1) + math.exp(1) + math.cos(1) + math.fsum([1, 2]) + math.comb(4, 2) + math.factorial(3)
            + math.atan2(1, 2) + math.degrees(1) + math.dist([1], [2]) + math.lcm(2, 3) + math.isqrt(10) + math.modf(1.5)[0] + math.inf * 0 + math.log2(8))


# collections


@case
def collections_deque(x, y):
    d = collections.deque([x], maxlen=3)
    d.append(y)
    d.appendleft(x * 2)
    d.extend([y])
    d.rotate(1)
    return d.pop() + d.popleft() * 2 + d[0] + len(d) + sum(d)


@case
def collections_ordered_dict(x, y):
    d = collections.OrderedDict(a=x)
    d["b"] = y
    d.move_to_end("a")
    out = sum(d.values())
    key, last = d.popitem()
    return out + last + len(key) + list(d)[0].count("b")


@case
def collections_defaultdict(x, y):
    d = collections.defaultdict(list)
    d["a"].append(x)
    d["a"].append(y)
    n = collections.defaultdict(int)
    n["k"] += 2
    return sum(d["a"]) + n["k"] + len(d) + n["z"]


@case
def collections_defaultdict_lambda(x, y):
    d = collections.defaultdict(lambda: x * 2)
    return d["a"] + d["a"] + y


Pair = collections.namedtuple("Pair", "first second", defaults=[2])


@case
def collections_namedtuple(x, y):
    p = Pair(x, y)
    q = p._replace(first=y)
    a, b = q
    return p.first + p[1] * 2 + a * b + Pair(1).second + len(p._asdict()) + len(p._fields) + (p.second is y)


@case
def collections_namedtuple_result(x, y):
    return Pair(x + y, [x])


class Box(typing.NamedTuple):
    value: torch.Tensor
    name: str = "a"

    def twice(self):
        return self.value * 2


@case
def collections_namedtuple_class(x, y):
    return Box(x).twice() + Box(y, name="b").value + len(Box(x).name)


@case
def collections_counter(x, y):
    c = collections.Counter("abca")
    c.update(["b"])
    return x * c["a"] + y * c.most_common(1)[0][1] + c["zz"] + sum(c.values())


@case
def collections_chainmap(x, y):
    m = collections.ChainMap({"a": x}, {"a": y, "b": y})
    return m["a"] + m["b"] + len(m) + m.get("c", 1)


@case
def collections_userdict(x, y):
    d = collections.UserDict(a=x)
    d["b"] = y
    return d["a"] + d["b"]


@case
def dict_methods(x, y):
    d = {"a": x, **{"b": y}}
    d.setdefault("c", x * 2)
    d.update(e=y)
    out = d.pop("c") + d.get("a") + d.get("zz", 0) + d.pop("nothing", 1)
    for key, value in d.items():
        out = out + value * len(key)
    del d["e"]
    return out + len(d) + ("a" in d) + sum(d.values()) + len((d | {"z": 1}).keys())


@case
def dict_views(x, y):
    d, e = {"a": x, "b": y}, {"b": y}
    common = d.keys() & e.keys()
    return d["a"] * len(common) + len(d.keys() - e.keys()) + ("a" in d.keys()) + [v for v in d.values()][0] + (("q", 1) in d.items()) + len(d.keys() | {"z"})


@case
def dict_order(x, y):
    d = {k: v for k, v in zip("ab", (x, y))}
    first = next(iter(d))
    return d[first] + list(reversed(d))[0].count("b") + {**d}["b"] + dict.fromkeys("ab", 1)["a"] + len(sorted(d))


@case
def set_operations(x, y):
    a, b = {1, 2, 3}, {2, 3, 4}
    a.add(5)
    a.discard(1)
    return x * len(a & b) + y * len(a | b) + len(a - b) + len(a ^ b) + (2 in a) + ({2} <= a) + sum(a) + len(a.union([9])) + a.isdisjoint({99})


NAMES = {"a", "b"}
FROZEN = frozenset({"a", "b"})


@case
def set_global_contains(x, y):
    return x + y if "a" in NAMES and "z" not in FROZEN and len(NAMES) == 2 else x


@case
def list_methods(x, y):
    a = [x]
    a.append(y)
    a.extend([x, y])
    a.insert(0, y)
    a += [x]
    last = a.pop()
    a.reverse()
    b = a[1:3] * 2
    del a[0]
    a[0] = y
    a[1:2] = [x, x]
    n = [1, 2, 2]
    n.remove(2)
    return last + a[0] + b[-1] + len(a) + n.index(2) + n.count(2) + ([1] + [2] == [1, 2]) + ([1, 2] < [1, 3])


@case
def star_unpacking(x, y):
    first, *rest = [x, y, x]
    a, (b, *c) = 1, (2, 3, 4)
    merged = [*rest, first, *(1, 2)]
    return first + rest[0] * 2 + a + b + c[1] + merged[-1] + {**{"k": 5}}["k"] + (*rest, 1)[-1]


# dataclasses, enumerations, copies


@dataclasses.dataclass
class Output:
    value: torch.Tensor
    extra: typing.Optional[torch.Tensor] = None
    items: list = dataclasses.field(default_factory=list)
    scale: float = 2.0

    def total(self):
        return self.value * self.scale


@case
def dataclass_plain(x, y):
    o = Output(x, extra=y)
    o.items.append(x)
    o.scale = 3.0
    return o.total() + o.extra + o.items[0]


@case
def dataclass_returned(x, y):
    o = Output(x + y)
    return o.value, o.extra, o.items


@case
def dataclass_replace(x, y):
    o = dataclasses.replace(Output(x), value=y)
    return o.total() + x


@case
def dataclass_fields(x, y):
    o = Output(x, y)
    return x * len(dataclasses.fields(o)) + sum(getattr(o, f.name) for f in dataclasses.fields(o) if f.name in ("value", "extra"))


@case
def dataclass_asdict(x, y):
    return dataclasses.asdict(Config(3, "b"))["width"] * x + y + dataclasses.astuple(Config(1, "a"))[0]


@dataclasses.dataclass(frozen=True)
class Config:
    width: int = 2
    name: str = "a"

    def __post_init__(self):
        assert self.width > 0


config = Config(width=4)


@case
def dataclass_frozen(x, y):
    c = Config(3)
    return x * config.width + y * c.width + (c == Config(3)) + hash(Config(1)) * 0


@dataclasses.dataclass(slots=True, order=True, kw_only=True)
class Slotted:
    a: int = 1
    b: float = 2.0


@case
def dataclass_slots(x, y):
    return x * Slotted(a=3).a + y * (Slotted(a=1) < Slotted(a=2))


class Mode(enum.Enum):
    FAST = 1
    SLOW = "slow"


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 2


class Flags(enum.Flag):
    A = enum.auto()
    B = enum.auto()


class Kind(str, enum.Enum):
    MEAN = "mean"
    SUM = "sum"


@case
def enum_members(x, y):
    mode = Mode.FAST
    return x + y if mode is Mode.FAST and mode == Mode.FAST and mode != Mode.SLOW and mode.value == 1 and mode.name == "FAST" else x


@case
def enum_lookup(x, y):
    return x + y if Mode("slow") is Mode.SLOW and Mode["FAST"] is Mode.FAST and Mode.FAST in Mode and len(list(Mode)) == 2 else x


@case
def enum_int(x, y):
    return x * Level.HIGH + y * (Level.LOW < Level.HIGH) + int(Level.HIGH) + (Level.LOW == 1) + Level.HIGH.value


@case
def enum_flag(x, y):
    f = Flags.A | Flags.B
    return x + y if Flags.A in f and f & Flags.B and not (Flags.A & Flags.B) else x


@case
def enum_str(x, y):
    return x + y if Kind("mean") == Kind.MEAN == "mean" and Kind.SUM != "mean" and Kind.SUM.value == "sum" else x


@case
def enum_key(x, y):
    table = {Mode.FAST: 2, Mode.SLOW: 3}
    return x * table[Mode.FAST] + y * table.get(Mode.SLOW) + (Mode.FAST in table)


@case
def copy_copy(x, y):
    a = [x, [y]]
    b = copy.copy(a)
    d = copy.copy({"k": y})
    o = copy.copy(square)
    return b[0] + b[1][0] + d["k"] + o.side + (b[1] is a[1])


@case
def copy_deepcopy(x, y):
    b = copy.deepcopy({"k": [1, 2], "s": "a"})
    o = copy.deepcopy(square)
    return x * b["k"][1] + y * o.side


@case
def copy_deepcopy_tensor(x, y):
    return copy.deepcopy([x])[0] + copy.copy(y)


# random, time


@case
def random_random(x, y):
    random.seed(3)
    return x * random.random() + y * random.randint(0, 5) + random.choice([1, 2]) + random.uniform(0, 1)


@case
def time_time(x, y):
    start = time.time()
    z = x + y
    took = time.time() - start
    began = time.perf_counter()
    return z if took >= 0 and began >= 0 else x


@case
def typing_constructs(x, y):
    value: typing.Optional[int] = 3
    z = typing.cast(torch.Tensor, x)
    names: typing.List[str] = []
    assert isinstance(names, typing.List.__origin__)
    return z * value + y * (typing.TYPE_CHECKING + 1)


T = typing.TypeVar("T")


class Holder(typing.Generic[T]):
    def __init__(self, value: T):
        self.value = value


@case
def typing_generic(x, y):
    return Holder[torch.Tensor](x).value + Holder(y).value


# Collections that live outside


class State:
    def __init__(self):
        self.options = {"kept": 1}
        self.recent = collections.deque([1.0, 2.0], maxlen=4)
        self.table = collections.OrderedDict(a=1, b=2)
        self.groups = collections.defaultdict(list, k=[1])
        self.counts = collections.Counter("aab")
        self.point = Pair(1, 2)
        self.names = {"x", "y"}


state = State()


@case
def outside_deque_read(x, y):
    return x * len(state.recent) + y * state.recent[-1] + sum(state.recent)


@case
def outside_ordered_dict_read(x, y):
    out = x
    for name, value in state.table.items():
        out = out + value * len(name)
    return out + y * state.table["a"]


@case
def outside_defaultdict_read(x, y):
    return x * state.groups["k"][0] + y * len(state.groups)


@case
def outside_counter_read(x, y):
    return x * state.counts["a"] + y * state.counts["zz"] + sum(state.counts.values())


@case
def outside_namedtuple_read(x, y):
    first, second = state.point
    return x * first + y * state.point.second + (state.point == (1, 2))


@case
def outside_set_read(x, y):
    return x * len(state.names) + y * ("x" in state.names) + len(sorted(state.names))


@case
def outside_deque_append(x, y):
    state.recent.append(3.0)
    return x + y


@case
def outside_counter_update(x, y):
    state.counts["a"] += 1
    state.counts["a"] -= 1
    return x + y


@case
def sorted_min_max_key(x, y):
    rows = [("b", x, 2), ("a", y, 1)]
    first = sorted(rows, key=lambda row: row[0])[0]
    return first[1] + min(rows, key=operator.itemgetter(2))[1] * max([3, 1], default=0) + max("ab", key=len).count("a")


@case
def itertools_more(x, y):
    a = list(itertools.combinations_with_replacement([1, 2], 2))
    b = dict(itertools.zip_longest("ab", [x]))
    c = [len(list(group)) for _, group in itertools.groupby([1, 1, 2])]
    d = list(itertools.islice(itertools.repeat(y), 2))
    return b["a"] * len(a) + d[1] * sum(c) + next(itertools.chain([x], [y])) + sum(itertools.accumulate([1, 2, 3]))


class Steps(list):
    def __call__(self, x):
        for step in self:
            x = x * step
        return x


STEPS, RESULTS = Steps([1.0, 2.0]), collections.OrderedDict(logits=1)


@case
def list_subclass_from_outside(x, y):
    return STEPS(x) + y


@case
def dict_pop_from_outside(x, y):
    state.options["scale"] = 2.0
    scale = state.options.pop("scale", None)
    return x * scale + y * state.options.pop("absent", 1.0)


@case
def key_in_dict_subclass(x, y):
    return x + y if "logits" in RESULTS else x - y


@case
def shared_variable_deleted(x, y):
    outputs = [x, y]
    total = sum(one for one in outputs)
    del outputs
    return total


@case
def list_of_sizes(x, y):
    shape = list(x.shape)
    return torch.reshape(x, [shape[0] // 2, 2] + shape[1:]).sum(1) + y[:2]


@case
def typing_annotation(x, y):
    parts = torch.jit.annotate(typing.List[torch.Tensor], [])
    parts.append(typing.cast(typing.Optional[torch.Tensor], x))
    return torch.cat(parts) + typing.cast(typing.Tuple[int, torch.Tensor], y)


class Makes(collections.OrderedDict):
    def __getitem__(self, key):
        kind = super().__getitem__(key)
        return kind()


MAKES = Makes(relu=torch.nn.ReLU, silu=torch.nn.SiLU)


@case
def made_by_name(x, y):
    return MAKES["relu"](x) + MAKES["silu"](y)


@case
def distribution_checked(x, y):
    return torch.distributions.Normal(x, y.abs() + 0.5).log_prob(x * 0.5) + torch.distributions.Categorical(logits=y).entropy().sum()


@case
def checks_that_raise(x, y):
    if not torch.isfinite(x).all():
        raise ValueError(f"not finite: {x}")
    assert (y.abs() < 1e9).all(), "large"
    assert bool((x == x).all())
    return x + y


@case
def new_tensor_of_numbers(x, y):
    return x * x.new_tensor(2.5) + y.sum() * x.new_tensor([1, x.shape[0]]).sum()


class Averages(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("count", torch.zeros(()))
        self.register_buffer("steps", torch.zeros(()), persistent=False)

    def forward(self, x):
        self.count = self.count + 1
        self.steps = self.steps + 2
        return x * self.count


AVERAGES = Averages()


@case
def buffers_assigned(x, y):
    AVERAGES.count = AVERAGES.count * 0
    return AVERAGES(x) + y


@case
def partial_of_a_module(x, y):
    return functools.partial(AVERAGES)(x) * 0 + functools.partial(torch.nn.functional.pad, mode="constant")(y, (0, 0))


OUTSIDE, SEEN, VALID = [], set(), {"a", "b"}


@case
def outside_list_extended(x, y):
    OUTSIDE.extend([x, y])
    return x + y


@case
def outside_set_added_to(x, y):
    SEEN.add("one")
    SEEN.discard("two")
    return x + y


@case
def texts_of_sets_and_classes(x, y):
    return x + len(f"{VALID} {type(x)} {frozenset({1, 2})}") + len(str(VALID)) + y


@case
def tuples_through_map(x, y):
    return torch.stack(list(map(lambda by: x * by[0] + by[1], ((1, 2), (3, 4))))).sum(0) + y


BY_CLASS = {list: 1, tuple: 2, torch.Tensor: 3}


@case
def class_as_key(x, y):
    return x * BY_CLASS[type(y)] + BY_CLASS[list]


@case
def pytree_mapped(x, y):
    leaves, spec = pytree.tree_flatten({"a": [x, y], "b": (x + 1, 2)})
    return pytree.tree_map(lambda leaf: leaf * 2, pytree.tree_unflatten(leaves, spec))["a"]
