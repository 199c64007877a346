import torch
from support import seq, show

log = []


class Thing:
    def __init__(self):
        self.__dict__["data"] = {}

    def __setattr__(self, name, value):
        log.append(f"set {name}")
        self.data[name] = value


def model(thing, x, store):
    store["first"] = 1
    thing.a = x * 2
    print("between", len(log), sorted(store))
    store["second"] = thing.data["a"]
    log.append("appended")
    thing.b = store["second"] + 1
    del store["first"]
    return thing.data["b"]


for step in range(5):
    log.clear()
    store = {}
    show(model(Thing(), seq(2, start=step % 2), store), log, store)
