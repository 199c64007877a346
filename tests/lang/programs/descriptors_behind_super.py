# A descriptor of the program's own behind super() is asked once each time.
import functools

import torch

asked = []


class Counted:
    def __get__(self, instance, owner=None):
        asked.append(owner.__name__)
        return len(asked)


class Bound:
    def __get__(self, instance, owner=None):
        asked.append("bound")
        return functools.partial(torch.mul, len(asked))


class Doubled(property):
    def __get__(self, instance, owner=None):
        asked.append("property")
        return 2 * super().__get__(instance, owner)


class Base:
    number = Counted()
    times = Bound()
    constant = 3

    @Doubled
    def doubled(self):
        return len(asked)

    @property
    def plain(self):
        asked.append("plain")
        return len(asked)

    @functools.cached_property
    def cached(self):
        asked.append("cached")
        return len(asked)

    @classmethod
    def made(cls, x):
        return x + len(cls.__name__)

    @staticmethod
    def static(x):
        return x - 1


class Derived(Base):
    def read(self, x):
        return x * super().number

    def call(self, x):
        return super().times(x)

    def property_of_its_own(self, x):
        return x * super().doubled

    def plain_property(self, x):
        return x * super().plain

    def cached_once(self, x):
        return x * super().cached

    def others(self, x):
        return super().made(x) + super().static(x) * super().constant

    @classmethod
    def of_class(cls, x):
        return x * super().number

    def named(self, x):
        return x * super(Derived, self).number


derived, x = Derived(), torch.ones(2)
for name in ("read", "call", "property_of_its_own", "plain_property", "cached_once", "others", "of_class", "named"):
    asked.clear()
    for i in range(9):
        print(name, i, getattr(derived, name)(x).tolist(), len(asked), asked[-1:])
