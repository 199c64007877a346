"""Output and built-in functions: each function takes two float tensors of shape 4x3 and uses one construct between operators. For capture.py."""

import abc
import collections
import collections.abc
import functools
import logging
import operator
import types
import typing
import warnings

import torch
from torch import nn

CASES = {}


def case(function):
    CASES[function.__name__] = function
    return function


# Output


@case
def print_text(x, y):
    z = x * 2
    print("half way")
    return z + y


@case
def print_shape(x, y):
    z = x @ y.t()
    print("shape", z.shape, tuple(x.shape), z.dtype, sep=", ", end="!\n")
    return z + 1


@case
def print_fstring(x, y):
    print(f"{x.shape[0]:>5} {x.dim()!r} {x.dtype}")
    return x - y


@case
def print_tensor(x, y):
    z = x * 2
    print(z)
    return z + y


@case
def print_tensor_versions(x, y):
    z = x * 2
    print("before", z)
    z.add_(1)
    print("after", z)
    return z + y


@case
def print_fstring_tensor(x, y):
    z = x * 2
    print(f"z is {z} and {z.sum():.3f}")
    return z + y


@case
def print_item(x, y):
    z = x * 2
    print("sum", round(z.sum().item(), 2), f"{z.mean().item():.3f}")
    return z + y


@case
def print_flush(x, y):
    print("a", flush=True)
    return x + y


@case
def print_empty(x, y):
    print()
    return x + y


@case
def print_list(x, y):
    print([1, 2, (3, "a")], {"k": None}, True)
    return x + y


@case
def print_in_loop(x, y):
    for i in range(3):
        x = x + y
        print("turn", i)
    return x


@case
def print_percent(x, y):
    print("%d of %s: %5.2f" % (3, "a", 1.5), "{} {:>4}".format(1, "b"))
    return x + y


log = logging.getLogger("capture")
log.setLevel(logging.INFO)
handler = logging.StreamHandler()
log.addHandler(handler)
log.propagate = False


@case
def logging_below_level(x, y):
    log.debug("value %s", x.shape)
    return x + y


@case
def logging_info(x, y):
    z = x * 2
    log.info("shape %s", tuple(z.shape))
    return z + y


@case
def logging_root_debug(x, y):
    logging.debug("nothing")
    return x + y


@functools.lru_cache(None)
def warning_once(self, *args):
    self.warning(*args)


logging.Logger.warning_once = warning_once


@case
def logging_once(x, y):
    log.warning_once("said only once")
    return x + y


@case
def logging_tensor(x, y):
    z = x.round()
    log.info("value %s", z)
    return z + y


@case
def warnings_warn_once(x, y):
    warnings.warn("take care")
    return x + y


@case
def warnings_ignored(x, y):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        warnings.warn("take care")
    return x + y


# Builtins


@case
def builtin_len(x, y):
    return x * len(x) + len([1, 2]) + len("abc") + y * len({"a": 1})


@case
def builtin_isinstance(x, y):
    ok = isinstance(x, torch.Tensor) and isinstance(3, (int, float)) and not isinstance(x, nn.Parameter)
    return x + y if ok else x


@case
def builtin_isinstance_parameter(x, y):
    return x + y if not isinstance(x, (nn.Parameter, nn.Buffer)) else x


weight = nn.Parameter(torch.ones(3))


@case
def builtin_isinstance_parameter_true(x, y):
    return (x * weight + y).detach() if isinstance(weight, nn.Parameter) else x


@case
def builtin_isinstance_union(x, y):
    return x + y if isinstance(2, int | str) and issubclass(bool, int) else x


@case
def builtin_isinstance_abc(x, y):
    a = [x, y]
    ok = isinstance(a, collections.abc.Sequence) and isinstance({}, collections.abc.Mapping) and not isinstance(x, collections.abc.Mapping)
    return a[0] + a[1] if ok and isinstance(a, collections.abc.Iterable) else x


class Shape(abc.ABC):
    @abc.abstractmethod
    def area(self):
        ...


class Square(Shape):
    def __init__(self, side):
        self.side = side

    def area(self):
        return self.side * self.side


square = Square(3)


@case
def builtin_isinstance_own_abc(x, y):
    return x * square.area() if isinstance(square, Shape) and not isinstance(x, Shape) else y


@typing.runtime_checkable
class HasArea(typing.Protocol):
    def area(self):
        ...


@case
def builtin_isinstance_protocol(x, y):
    return x + y if isinstance(square, HasArea) else x


class Checked(type):
    def __instancecheck__(cls, instance):
        return hasattr(instance, "side")


class Sided(metaclass=Checked):
    pass


@case
def builtin_isinstance_metaclass(x, y):
    return x + y if isinstance(square, Sided) else x


@case
def builtin_issubclass(x, y):
    return x + y if issubclass(type(square), Shape) and issubclass(nn.Linear, nn.Module) else x


@case
def builtin_isinstance_tensor_types(x, y):
    return x + y if not isinstance(x, torch.LongTensor) and isinstance(x, torch.FloatTensor) else x


@case
def builtin_hasattr(x, y):
    return x + y if hasattr(x, "shape") and not hasattr(x, "nothing") and hasattr(square, "side") and not hasattr(square, "b") else x


@case
def builtin_getattr(x, y):
    return getattr(torch, "relu")(x) + getattr(y, "missing", 1) + getattr(square, "side") + getattr(x, "sum")(0)


@case
def builtin_zip_enumerate(x, y):
    out = 0
    for i, (a, b) in enumerate(zip(x.unbind(0), y.unbind(0))):
        out = out + a * b * i
    return out


@case
def builtin_zip_strict_star(x, y):
    pairs = list(zip([x, y], [1, 2], strict=True))
    tensors, numbers = zip(*pairs)
    return tensors[0] * numbers[1] + tensors[1]


@case
def builtin_sorted(x, y):
    return x * sorted([3, 1, 2])[0] + y * sorted((3, 1), reverse=True)[0]


@case
def builtin_sorted_key(x, y):
    items = sorted([("b", x), ("a", y)], key=lambda item: item[0])
    return items[0][1] * 2 + items[1][1]


@case
def builtin_sort_method(x, y):
    items = [("b", x), ("a", y)]
    items.sort(key=operator.itemgetter(0))
    return items[0][1] * 2 + items[1][1]


@case
def builtin_min_max(x, y):
    return x * min(3, 2) + y * max([1, 5, 2]) + max((1, 2), (1, 3))[1]


@case
def builtin_min_max_key(x, y):
    best = max([x, y[:2]], key=lambda t: t.shape[0])
    return best + min([3, -4], key=abs) + max([], default=1)


@case
def builtin_any_all(x, y):
    return x + y if any([False, True]) and all(t.dim() == 2 for t in (x, y)) and not any(t.is_cuda for t in [x, y]) else x


@case
def builtin_map(x, y):
    a, b = map(torch.relu, (x, y))
    return a + b + sum(map(lambda v: v * 2, [1, 2]))


@case
def builtin_map_lambda_tensors(x, y):
    return torch.stack(list(map(lambda a, b: a * b + 1, [x, y], [y, x])))


@case
def builtin_filter(x, y):
    return sum(filter(lambda t: t is not None, [x, None, y])) + len(list(filter(None, [0, 1, 2])))


@case
def builtin_reversed(x, y):
    out = x
    for t in reversed([x, y]):
        out = out * 2 + t
    return out + list(reversed(range(3)))[0] + list(reversed((1, 2)))[0]


@case
def builtin_sum(x, y):
    return sum([x, y]) + sum([1, 2], 3) + sum(([1], [2]), [])[1]


@case
def builtin_numbers(x, y):
    return x * abs(-2) + y * round(2.6) + divmod(7, 3)[0] + pow(2, 3) + int("12") + float(3) + int(2.9) + bool(1) + round(2.345, 1)


@case
def builtin_text(x, y):
    return x * len(str(12)) + y * len(repr("a")) + ord("a") + len(chr(98)) + len(hex(255)) + len(bin(2)) + len(format(3.14159, ".2f"))


@case
def builtin_slices(x, y):
    s = slice(1, 3)
    return x[s] + y[slice(None, 2)] + [1, 2, 3][s][0] + s.start + len(range(10)[2:5])


@case
def builtin_type(x, y):
    return x + y if type(x) is torch.Tensor and type(3) == int and type(square).__name__ == "Square" else x


@case
def builtin_callable_id(x, y):
    a = [x]
    return x + y if callable(torch.relu) and id(a) == id(a) and a is not [x] else x


@case
def builtin_hash(x, y):
    return x + y if hash("a") == hash("a") and hash((1, 2)) == hash((1, 2)) else x


@case
def builtin_iter_next(x, y):
    it = iter([x, y])
    a = next(it)
    b = next(it)
    return a + b + next(it, 1)


@case
def builtin_next_generator(x, y):
    return next(t for t in (x, y) if t.dim() == 2) + y


@case
def builtin_iter_sentinel(x, y):
    values = [1, 2, 0, 4]
    return x + sum(iter(lambda: values.pop(0), 0)) + y


@case
def builtin_dict_set_list(x, y):
    d = dict(a=x, b=y)
    d2 = dict([("c", x)])
    return d["a"] + d2["c"] + len(set([1, 1])) + len(frozenset((1, 2))) + list("ab").index("b") + tuple([1])[0]


@case
def builtin_vars_dir(x, y):
    return x * len(vars(square)) + y


@case
def builtin_setattr_delattr(x, y):
    s = types.SimpleNamespace(a=x)
    setattr(s, "b", y)
    out = s.a + s.b
    delattr(s, "a")
    return out if not hasattr(s, "a") else x


@case
def builtin_globals(x, y):
    return x + y * len(globals()["square"].__dict__)
