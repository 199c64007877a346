"""Classes: each function takes two float tensors of shape 4x3 and uses one construct between
operators. For capture.py."""



CASES = {}


def case(function):
    CASES[function.__name__] = function
    return function


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


@case
def class_asked_for_what_it_lacks(x, y):
    scale = getattr(Base, "_scale", 2) + hasattr(tuple, "_fields") + hasattr(type(x), "_fields")
    return x * scale + y
