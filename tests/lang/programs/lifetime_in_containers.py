"""Objects whose end is seen, let go by cells, attributes and containers: before what comes next."""
import torch


class Noisy:
    def __del__(self):
        print("gone")


class Box:
    pass


box, lst, dct = Box(), [], {}


def attr_fresh(x):
    b = Box()
    b.thing = Noisy()
    x = x + (1 if b.thing else 0)
    b.thing = None
    print("after")
    return x


def attr_out(x):
    box.thing = Noisy()
    x = x + (1 if box.thing else 0)
    box.thing = None
    print("after")
    return x


def list_fresh(x):
    l = [Noisy()]
    x = x + len(l)
    l[0] = None
    print("after")
    return x


def dict_fresh(x):
    l = {"a": Noisy()}
    x = x + len(l)
    del l["a"]
    print("after")
    return x


def dict_pop(x):
    l = {"a": Noisy()}
    x = x + len(l)
    l.pop("a")
    print("after")
    return x


def local_set(x):
    l = Noisy()
    x = x + 1
    l = None
    print("after")
    return x


def inner(x):
    l = Noisy()
    return x + 1
def by_return(x):
    x = inner(x)
    print("after")
    return x


def cell_plain(x):
    l = Noisy()
    def use():
        return l
    x = x + 1
    l = None
    print("after")
    return x


def cell_noread(x):
    l = Noisy()
    f = lambda: l
    del f
    x = x + 1
    l = None
    print("after")
    return x


def out_list(x):
    lst.append(Noisy())
    x = x + 1
    lst.pop()
    print("after")
    return x


def out_dict(x):
    dct["a"] = Noisy()
    x = x + 1
    del dct["a"]
    print("after")
    return x


def out_pop(x):
    dct["a"] = Noisy()
    x = x + 1
    dct.pop("a")
    print("after")
    return x


for f in (attr_fresh, attr_out, list_fresh, dict_fresh, dict_pop, local_set, by_return, cell_plain, cell_noread, out_list, out_dict, out_pop):
    print(f.__name__)
    for i in range(5):
        f(torch.ones(2))
