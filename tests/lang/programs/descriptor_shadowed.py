import torch
from support import seq, show


class Constant:
    def __init__(self, value):
        self.value = value

    def __get__(self, instance, owner):
        return self.value


class Model:
    scale = Constant(2.0)

    def run(self, x):
        return x * self.scale


model = Model()
for step in range(9):
    if step == 3:
        model.scale = 5.0
    if step == 6:
        del model.scale
    show(model.run(seq(3, start=step % 3)))
Model.scale = Constant(-1.0)
for step in range(3):
    show(model.run(seq(3, start=step)))
