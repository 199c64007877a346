"""Classes go when the program lets go of them: nothing that guards ask about them keeps them."""

import gc
import weakref

import torch

TABLE = {}
x = torch.ones(4)


class Base:
    pass


def missing(cls):
    return x * getattr(cls, "factor", 3) + hasattr(cls, "other")


def attribute(cls):
    return cls.held * (1 if getattr(cls, "other", None) is None else 2)


def item(cls):
    return x * TABLE[cls]


def membership(cls):
    return x * 2 if cls in TABLE else x


def of_instance(cls):
    return x * TABLE.get(type(cls()), 3)


def made_inside():
    class Local:
        pass

    return (x * getattr(Local, "factor", 7)).sum().item(), hasattr(Local, "other"), weakref.ref(Local)


for use in (missing, attribute, item, membership, of_instance):
    for turn in range(4):
        cls = type("Made", (Base,), {})
        cls.held = torch.ones(10)
        if use is item or turn % 2:
            TABLE[cls] = 2
        for _ in range(5):
            result = use(cls).sum().item()
        ended, held = weakref.ref(cls), weakref.ref(cls.held)
        TABLE.clear()
        del cls
        gc.collect()
        print(use.__name__, turn, result, ended() is None, held() is None, len(Base.__subclasses__()))

for _ in range(6):
    total, known, ended = made_inside()
    gc.collect()
    print("made inside", total, known, ended() is None)
