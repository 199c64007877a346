import torch
from support import seq, show


class Base:
    gain = 1.0


class Model(Base):
    def run(self, x):
        return x * self.gain


model = Model()
for where, value in ((None, 0), (Base, 2.0), (Model, 3.0), (model, 4.0), (Base, 5.0), (None, 0)):
    if where is not None:
        where.gain = value
    for step in range(3):
        show(model.run(seq(2, start=step)))
del model.gain
show(model.run(seq(2)))
del Model.gain
for step in range(3):
    show(model.run(seq(2, start=step)))
