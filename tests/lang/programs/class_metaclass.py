import torch
from support import seq, show


class Registry(type):
    made = []

    def __new__(mcs, name, bases, space, **options):
        cls = super().__new__(mcs, name, bases, space)
        cls.options = options
        mcs.made.append(name)
        return cls

    def __call__(cls, *args):
        made = super().__call__(*args)
        made.tag = cls.__name__.lower()
        return made


class Base(metaclass=Registry):
    def __init_subclass__(cls, **options):
        super().__init_subclass__()
        cls.scale = len(cls.__name__)

    def __init__(self, x):
        self.x = x


def model(x, name):
    class Local(Base, flag=name):
        def run(self):
            return self.x * self.scale

    made = Local(x)
    return made.run(), made.tag, Local.options, len(Registry.made)


for step in range(5):
    show(*model(seq(2, start=step % 2), f"n{step % 2}"))
