# Attributes of types.SimpleNamespace: read, written, deleted, added, shadowed by its class, through its __dict__, shared by two.
import types

import torch

settings = types.SimpleNamespace(scale=2, on=True, inner=types.SimpleNamespace(size=4), steps=0, weight=torch.ones(4))


def reads(x):
    y = x * settings.scale + settings.weight if settings.on else x
    return y.view(-1, settings.inner.size)


def counts(x):
    settings.steps += 1
    settings.last = x * settings.steps
    return settings.last + settings.steps


def deletes(x):
    settings.passing = x + 1
    y = settings.passing * 2
    del settings.passing
    return y, hasattr(settings, "passing"), getattr(settings, "absent", 5)


def by_dict(x):
    vars(settings)["scale"] = vars(settings)["scale"] + 1
    return x * settings.scale


def fresh(x):
    made = types.SimpleNamespace(a=x, b=3)
    made.a = made.a + made.b
    return made, made.a * 2


def stays_inside(x):
    made = types.SimpleNamespace(a=x, b=3, **{"of": settings})
    made.c = made.a * made.b
    del made.b
    return made.c + made.a * made.of.scale, made == types.SimpleNamespace(a=x, c=made.c, of=settings), sorted(vars(made))


def holds_itself(x):
    made = types.SimpleNamespace()
    made.me, made.x = made, x + 1
    dynrun_break = id(made) == id(made.me)
    return made.me.me.x * 2, dynrun_break, made


x = torch.arange(4.0)
for turn in range(12):
    print(turn, reads(x).tolist(), counts(x).tolist(), deletes(x), by_dict(x).tolist(), fresh(x), stays_inside(x), holds_itself(x))
    if turn == 4:
        settings.scale, settings.inner.size = 10, 2
    if turn == 6:
        settings.on = False
    if turn == 8:
        settings.inner = types.SimpleNamespace(size=1)
        settings.on, settings.weight = True, torch.zeros(4)
print(settings)


def missing(x):
    return x * settings.nowhere


for turn in range(5):
    try:
        missing(x)
    except AttributeError as error:
        print(error)
settings.nowhere = 3
for turn in range(5):
    print(missing(x).tolist())


class Own(types.SimpleNamespace):
    factor = 3

    @property
    def twice(self):
        return self.factor * 2

    def call(self, x):
        return x * self.factor + self.twice


own = Own(other=1)


def of_own(x, own):
    own.other += 1
    return own.call(x) + own.other


for turn in range(8):
    print(of_own(x, own).tolist(), own)
    if turn == 4:
        own.factor = 7
