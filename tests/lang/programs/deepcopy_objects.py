"""copy.deepcopy of objects with attributes: configurations, and what their classes have to say in it."""
import copy
import copyreg

import torch
from support import seq, show


class Named:
    """Attributes by other names, as configurations have them."""
    names = {"hidden": "d_model"}

    def __getattribute__(self, key):
        if key != "names" and key in super().__getattribute__("names"):
            key = super().__getattribute__("names")[key]
        return super().__getattribute__(key)


class Config(Named):
    def __init__(self):
        self.d_model, self.labels, self.decoder_layers, self.scale = 4, {"a": [1, 2], "b": (3, [4])}, 3, 0.5
        self.shared = self.labels["a"]

    def __setattr__(self, name, value):
        if name == "scale" and value > 9:
            raise ValueError(name)
        super().__setattr__(name, value)


class Asked(Config):
    def __deepcopy__(self, memo):
        print("deepcopy asked", sorted(memo))
        return Config()


class Reduced(Config):
    def __reduce__(self):
        return Config, ()


class Restored(Config):
    def __setstate__(self, state):
        print("restored", sorted(state))
        self.__dict__.update(state, d_model=7)


class Stated(Config):
    def __getstate__(self):
        return dict(self.__dict__, d_model=8)


class Slotted(Config):
    __slots__ = ("extra",)


class Looks(Config):
    def __getattribute__(self, key):
        if key.startswith("__"):
            print("asked for", key)
        return super().__getattribute__(key)


class Missing(Config):
    def __getattr__(self, key):
        if key == "__deepcopy__":
            return lambda memo: "from __getattr__"
        raise AttributeError(key)


class Own(Config):
    def __init__(self):
        super().__init__()
        self.me = self


class Nested(Config):
    def __init__(self):
        super().__init__()
        self.inner, self.same = Config(), None
        self.same = self.inner


class Empty:
    pass


class Deletes(Config):
    def __delattr__(self, name):
        print("deletes", name)
        super().__delattr__(name)


class Registered(Config):
    pass


copyreg.pickle(Registered, lambda config: (Config, ()))


def model(x, config):
    made = copy.deepcopy(config)
    if isinstance(made, str):
        return x, made
    for key in copy.deepcopy(made.__dict__):
        if key.startswith("decoder"):
            value = getattr(made, key)
            delattr(made, key)
            setattr(made, "num" + key[len("decoder"):], value)
    made.labels["a"].append(5)
    return x * made.num_layers + made.hidden, made is config, type(made).__name__, made.labels, made.shared is made.labels["a"], config.labels, config.decoder_layers, sorted(vars(made))


def tell(values):
    show(values[0])
    print(*values[1:])


for kind in (Config, Asked, Reduced, Restored, Stated, Slotted, Looks, Missing, Deletes, Registered):
    config = kind()
    for step in range(5):
        tell(model(seq(2, start=step), config))
        if step == 2:
            config.labels["c"] = [step]  # what is copied is looked at each time
        if step == 3:
            config.d_model = 6


def keeps(x, config, kept):
    made = copy.deepcopy(config)
    made.tensor = x + 1
    kept.append(made)
    return x * 2


kept = []
for step in range(5):
    show(keeps(seq(2, start=step), Config(), kept))
for made in kept:
    print(type(made).__name__, made.hidden, made.labels, made.shared is made.labels["a"])
    show(made.tensor)


def graphs(x, own, nested, empty):
    a, b, c = copy.deepcopy(own), copy.deepcopy(nested), copy.deepcopy(empty)
    return x + a.hidden, a.me is a, a.me is own, b.inner is b.same, b.inner is nested.inner, type(c).__name__, vars(c), c is empty


for step in range(5):
    tell(graphs(seq(2, start=step), Own(), Nested(), Empty()))


def holds(x, config):
    config.tensor = x + 1  # not a plain attribute any more
    made = copy.deepcopy(config)
    return x, made.tensor is config.tensor, made.tensor


for step in range(5):
    values = holds(seq(2, start=step), Config())
    tell(values[:2])
    show(values[2])


def lacks(x, config):
    y = x * 2
    try:
        delattr(config, "nothing")
    except AttributeError as error:
        print(error)
    delattr(config, "scale")
    return y, hasattr(config, "scale"), sorted(vars(config))


for step in range(5):
    tell(lacks(seq(2, start=step), Config()))


class Ends:
    def __init__(self, name):
        self.name = name

    def __del__(self):
        print("end of", self.name)


def lets_go(x, config):
    config.thing = Ends("thing")
    y = x + 1
    delattr(config, "thing")
    print("behind")
    return y, sorted(vars(config))


for step in range(4):
    tell(lets_go(seq(2, start=step), Config()))

for step in range(5):  # an attribute by an instance's own name
    config = Config()
    if step > 2:
        config.__dict__["__deepcopy__"] = lambda memo: "an instance's own"
    tell(model(seq(2, start=step), config))
for step in range(4):  # a method that comes later
    if step == 2:
        Config.__deepcopy__ = lambda self, memo: "later"
    tell(model(seq(2, start=step), Config()))

del Config.__deepcopy__
original = copy._reconstruct
for step in range(6):  # copy.py is changed
    if step == 3:
        copy._reconstruct = lambda x, memo, *rest, **more: print("another one") or original(x, memo, *rest, **more)
    tell(model(seq(2, start=step), Config()))
copy._reconstruct = original
