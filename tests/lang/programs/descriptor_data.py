import torch
from support import seq, show


class Tracked:
    def __set_name__(self, owner, name):
        self.name = "_" + name

    def __get__(self, instance, owner=None):
        if instance is None:
            return self
        print("get", self.name)
        return getattr(instance, self.name)

    def __set__(self, instance, value):
        print("set", self.name)
        setattr(instance, self.name, value)


class Model:
    gain = Tracked()

    def __init__(self):
        self.gain = 1.0

    def run(self, x):
        self.gain = self.gain + 1
        return x * self.gain


model = Model()
for step in range(6):
    show(model.run(seq(2, start=step)))
print(type(Model.gain).__name__)
