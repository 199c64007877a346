"""dict.pop on dicts from outside: keys that are there and not, what is read afterwards, what other names see."""
import collections

import torch


class Guarded(dict):
    def pop(self, *args):
        return ("own", super().pop(*args))


def taken(x, options):
    scale = options.pop("scale", 2.0)
    shift = options.pop("shift", None)
    y = x * scale
    return (y if shift is None else y + shift), "scale" in options, len(options), list(options)


def popped_and_put(x, options):
    value = options.pop("value", 0)
    y = x + value
    options["value"] = value + 1
    return y, options.pop("value"), options.get("value")


def missing(x, options):
    y = x + 1
    try:
        options.pop("nothing")
    except KeyError as error:
        return y, str(error)
    return y


def tensor_out(x, options):
    weight = options.pop("weight", None)
    if weight is None:
        return x
    x = x @ weight
    options["weight"] = weight
    return x


def two_names(x, first, second):
    value = first.pop("a", 1)
    return x * value + second.get("a", 10), first is second


def with_break(x, options):
    count = options.pop("count", 0)
    if x.sum() > 3:
        x = x - count
    options.setdefault("count", count + 1)
    return x + options.pop("more", 0.5)


def pop_twice(x, options):
    return x + options.pop("k", 1) + options.pop("k", 2)


ordered, guarded, weight = collections.OrderedDict(a=1, value=2), Guarded(value=3), torch.eye(2)
shared = {}
for step in range(10):
    x = torch.full((2, 2), float(step % 3))
    options = {"scale": 3.0, "other": step} if step % 2 else {"shift": 1.5}
    print(step, taken(x, options), options)
    shared.update({"value": step} if step % 4 == 0 else {})
    print(step, popped_and_put(x, shared), shared, missing(x, shared))
    holder = {"weight": weight} if step % 3 else {}
    print(step, tensor_out(x, holder), list(holder))
    one = {"a": step}
    print(step, two_names(x, one, one if step % 2 else {"a": 7}), one)
    counters = {"count": 3, "more": 2}
    print(step, with_break(x, counters), counters, pop_twice(x, {"k": 5}), pop_twice(x, {}))
    print(step, taken(x, collections.OrderedDict(scale=1.0, z=2)), taken(x, collections.Counter(scale=4)))
    print(step, Guarded(scale=2).pop("scale"), guarded.pop("missing", None))
