"""Sets, dicts, lists and counters ask, in C, which of their items are one object: another answer is another result."""

import collections
import functools
import itertools

import torch


class Mark:
    def __init__(self, n):
        self.n = n


class Other(Mark):
    pass


def first():
    pass


def second():
    pass


PAIRS = {
    "mark": (Mark(1), Mark(2)),
    "tensor": (torch.ones(2), torch.ones(2)),
    "module": (torch.nn.Tanh(), torch.nn.Tanh()),
    "parameter": (torch.nn.Parameter(torch.ones(2)), torch.nn.Parameter(torch.ones(2))),
    "function": (first, second),
    "class": (Mark, Other),
    "other class": (Mark(1), Other(1)),
    "lambda": tuple((lambda: 1) for i in range(2)),
    "method": (Mark(1).__repr__, Mark(2).__repr__),
    "generator": (torch.Generator(), torch.Generator()),
    "partial": (functools.partial(first), functools.partial(first)),
    "object": (object(), object()),
}


def set_display(a, b):
    return len({a, b})


def set_call(a, b):
    return len(set([a, b])), len(frozenset((a, b)))


def set_operators(a, b):
    s = {a}
    s |= {b}
    return len(s), len({a} | {b}), len({a} & {b}), {a} <= {b}


def set_update(a, b):
    s = set()
    s.update([a, b])
    return len(s)


def set_star(*both):
    return len({item for item in both}), len({*both})


def dict_display(a, b):
    return len({a: 1, b: 2})


def dict_calls(a, b):
    return len(dict.fromkeys([a, b])), len(dict(zip((a, b), (1, 2)))), len(dict([(a, 1), (b, 2)]))


def dict_store(a, b):
    d = {}
    d[a] = 1
    d.setdefault(b, 3)
    return d[a], len(d)


def dict_read(a, b):
    d = {a: 1}
    return d.get(b), b in d


def dict_comprehension(*both):
    return len({item: i for i, item in enumerate(both)})


def counters(a, b):
    d = collections.defaultdict(int)
    d[a] += 1
    d[b] += 1
    return len(d), d[a], len(collections.Counter([a, b]))


def tuples(a, b):
    return len({(a, 1), (b, 1)}), (a, 1) in {(b, 1): 2}


def lists(a, b):
    items = [a]
    return items.count(b), b in items


def equal(a, b):
    return [a, 1] == [b, 1], (a,) == (b,)


def grouped(a, b):
    return len([key for key, _ in itertools.groupby([a, b])])


def memo(a, b):
    seen = set()
    for item in (a, b, a):
        if item not in seen:
            seen.add(item)
    return len(seen)


def removed(a, b):
    items = [a, 1]
    try:
        items.remove(b)
    except ValueError:
        return "not there"
    return len(items)


def iterators(a, b):
    return len(set(iter([a, b]))), len({*iter([a, b])}), len(dict.fromkeys(iter([a, b]))), len(collections.OrderedDict(zip([a, b], [1, 2])))


def generators(a, b):
    return len(set(item for item in (a, b))), len(collections.Counter(item for item in (a, b)))


def deques(a, b):
    return collections.deque([a]).count(b), b in collections.deque([1, a])


def nested(a, b):
    return [[[[[[[a]]]]]]] == [[[[[[[b]]]]]]], ((((a,),),),) == ((((b,),),),), ({1: a},) == ({1: b},)


def values(a, b):
    return {1: a} == {1: b}, {1: {2: a}} == {1: {2: b}}, {1: a} in [{1: b}], b in {1: a}.values(), (1, b) in {1: a}.items()


def mapped(a, b):
    return list(map({a}.__contains__, [b])), list(map({a: 1}.get, [b])), len(list(iter([1, a, 2, b].pop, a)))


def picked(x, a):
    return len({a, PAIRS["mark"][x[:2].argmax().item()]})


FUNCTIONS = (set_display, set_call, set_operators, set_update, set_star, dict_display, dict_calls, dict_store, dict_read, dict_comprehension,
             counters, tuples, lists, equal, grouped, memo, removed,
             iterators, generators, deques, nested, values, mapped)


def ask(function):
    def asked(x, a, b):
        return (x * 4).sum(), function(a, b)

    asked.__code__ = asked.__code__.replace(co_name=function.__name__)  # recorded by itself
    return asked


for name, pair in PAIRS.items():
    for function in FUNCTIONS:
        asked = ask(function)
        answers = []
        for i in (1, 1, 0, 0, 1, 0, 1, 1):
            try:
                answers.append(asked(torch.ones(3), pair[0], pair[i])[1])
            except RuntimeError as error:
                answers.append(str(error)[:20])
        print(name, function.__name__, answers)
print([picked(torch.eye(3)[i], PAIRS["mark"][0]) for i in (0, 1, 1, 0, 0, 1, 0, 1, 1, 0)])
