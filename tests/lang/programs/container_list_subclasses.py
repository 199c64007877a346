"""Lists and dicts of classes of their own, gone through from outside: as transformers' lists of processors and criteria are."""
import collections

import torch


class Pipeline(list):
    def __call__(self, x):
        for step in self:
            x = step(x)
        return x

    @property
    def longest(self):
        for step in self:
            if isinstance(step, Scale):
                return step.by
        return None


class Backwards(list):
    def __iter__(self):
        return reversed(self)


class Named(list):
    def __init__(self, *items, name="none"):
        super().__init__(items)
        self.name = name


class Scale:
    def __init__(self, by):
        self.by = by

    def __call__(self, x):
        return x * self.by


class Shift(Scale):
    def __call__(self, x):
        return x + self.by


class Breaks(Scale):
    def __call__(self, x):
        return x + 1 if x.sum() > 4 else x - 1


class Output(collections.OrderedDict):
    pass


class Contains(dict):
    def __contains__(self, key):
        return key == "always" or super().__contains__(key)


def run(x, steps):
    return steps(x), steps.longest


def names(x, steps):
    for step in steps:
        x = x * step
    return x, getattr(steps, "name", None)


def grows(x, steps):
    for step in steps:
        x = x + step
        if len(steps) < 4:
            steps.append(step + 1)
    return x, len(steps)


def made(x):
    steps = Named(1.0, 2.0, name="made")
    for step in steps:
        x = x * step
    return x, steps.name, list(steps)


def asks(x, output):
    y = x + 1 if "logits" in output else x - 1
    return y * 2 if "always" in output else y


pipeline, backwards, named = Pipeline([Scale(2.0), Shift(1.0)]), Backwards([1.0, 2.0, 3.0]), Named(2.0, 0.5, name="n")
for step in range(14):
    x = torch.full((2,), float(step % 4))
    print(step, run(x, pipeline), names(x, backwards), names(x, named), grows(x, Named(float(step % 2))), made(x))
    print(step, asks(x, Output(logits=x) if step % 2 else Output()), asks(x, Contains(logits=1)), asks(x, collections.Counter(logits=2)))
    if step == 4:
        pipeline.append(Breaks(1.0))
    if step == 7:
        pipeline[0] = Shift(3.0)
    if step == 9:
        pipeline[1].by = 5.0
    if step == 10:
        backwards.pop()
    if step == 11:
        Pipeline.__iter__ = lambda self: iter([Scale(3.0)])
    if step == 12:
        named.name = "other"
