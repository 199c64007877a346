import torch
from support import seq, show


class Model:
    def __init__(self):
        self.state = torch.zeros(2)
        self.log = {}

    def run(self, x):
        self.state = self.state + x
        a = self.state
        self.state = a * 2
        self.log["a"] = len(self.log)
        self.log["b"] = self.log["a"] + 1
        vars(self)["extra"] = self.state is a
        return a, self.state, self.extra, self.__dict__["log"]["b"]


model = Model()
for step in range(6):
    show(*model.run(seq(2, start=step % 2)))
