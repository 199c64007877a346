"""Attributes that neither a class nor its metaclass has, until one of them does; classes as keys of dicts."""

import abc
import enum

import torch
import torch.utils._pytree as pytree


class Meta(type):
    pass


class Made(metaclass=Meta):
    pass


class Derived(Made):
    pass


class Plain:
    pass


class Abstract(abc.ABC):
    @abc.abstractmethod
    def work(self): ...


class Color(enum.Enum):
    RED = 1


class Asks(type):
    def __getattr__(cls, name):
        return len(name)


class Asked(metaclass=Asks):
    pass


def fields(x, cls):
    return x * (1 if getattr(cls, "_fields", None) is None else 2) + hasattr(cls, "extra")


def raises(x, cls):
    try:
        return x + cls.extra
    except AttributeError as error:
        return x - 1, str(error)


def of_instance(x, one):
    return x + getattr(type(one), "scale", 1)


def show(label, *values):
    print(label, *(value.tolist() if isinstance(value, torch.Tensor) else value for value in values))


def calls(label, cls):
    for turn in range(4):
        x = torch.arange(3.0) + turn
        show(label, fields(x, cls), raises(x, cls), of_instance(x, cls))


for cls in (tuple, list, int, torch.Tensor, torch.nn.Parameter, torch.nn.Linear, Plain, Made, Derived, Abstract, Color, Asked):
    calls(cls.__name__, cls)

Plain._fields = ()
calls("Plain with fields", Plain)
Made.extra = 5
calls("Derived with extra", Derived)
del Made.extra
calls("Derived without", Derived)
Meta.extra = 7
calls("Derived by its metaclass", Derived)
del Meta.extra
calls("Derived without it", Derived)
Meta.__getattr__ = lambda cls, name: len(name)
calls("Derived asks its metaclass", Derived)
del Meta.__getattr__
calls("Derived no more", Derived)
Meta.scale = 3
show("metaclass's own", *(of_instance(torch.ones(2), Derived) for _ in range(3)))



class Other(metaclass=Meta):
    extra = 50


class OtherMeta(Meta):
    extra = 70


Derived.__bases__ = (Other,)
calls("Derived of another base", Derived)
Derived.__bases__ = (Made,)
calls("Derived of its base", Derived)
Derived.__class__ = OtherMeta
calls("Derived of another metaclass", Derived)
Derived.__class__ = Meta
calls("Derived of its metaclass", Derived)
Meta.__getattribute__ = lambda cls, name: 99 if name == "extra" else type.__getattribute__(cls, name)
calls("Derived by its metaclass's own look-up", Derived)
del Meta.__getattribute__
calls("Derived by the plain one", Derived)
Meta.extra = property(lambda cls: 7)
calls("Derived by a property of its metaclass", Derived)
del Meta.extra
calls("Derived without that", Derived)

one = Plain()
show("no scale", *(of_instance(torch.ones(2), one) for _ in range(4)))
Plain.scale = 9
show("scale", *(of_instance(torch.ones(2), one) for _ in range(4)))

SIZES = {list: 1, tuple: 2, Plain: 3, torch.Tensor: 4}


def by_class(x, one):
    return x * SIZES[type(one)]


for turn in range(4):
    show("by class", *(by_class(torch.ones(2), one) for one in ([], (), Plain(), torch.ones(1))))
SIZES[Plain] = 8
show("by class", *(by_class(torch.ones(2), one) for one in ([], (), Plain(), torch.ones(1)) for _ in range(3)))
del SIZES[tuple]
for _ in range(3):
    try:
        by_class(torch.ones(2), ())
    except KeyError as error:
        print("no key", error)


class Equal(type):
    def __hash__(cls):
        return 1

    def __eq__(cls, other):
        return isinstance(other, Equal)


class First(metaclass=Equal):
    pass


class Second(metaclass=Equal):
    pass


SIZES[First] = 11
show("equal classes", *(by_class(torch.ones(2), one()) for one in (First, Second, First) for _ in range(3)))


def mapped(x, scale):
    tree = {"a": [x, x * 2], "b": (x + 1, x), "c": {"d": x - 1}}
    leaves, spec = pytree.tree_flatten(tree)
    return pytree.tree_map(lambda leaf: leaf * scale, tree), len(leaves), spec.num_leaves


for turn in range(4):
    tree, count, leaves = mapped(torch.arange(2.0), turn) if turn else mapped(torch.arange(3.0), 2)
    show("tree", count, leaves, *[leaf for leaf in pytree.tree_leaves(tree) if leaf is not None])
