"""Context variables that are set in one segment and reset in another, by tokens that lived across a graph break."""
import contextvars

import torch

collector = contextvars.ContextVar("collector", default=None)
other = contextvars.ContextVar("other", default=0)
bare = contextvars.ContextVar("bare")


def around(x, value):
    """As transformers collects outputs of layers."""
    token = collector.set(value)
    try:
        if x.sum() > 0:
            y = x * 2
        else:
            y = x - 1
        y = y + len(collector.get())
    finally:
        collector.reset(token)
    return y, collector.get()


def read_after(x, value):
    token = other.set(value)
    if x.sum() > 2:
        x = x + other.get()
    other.reset(token)
    x = x * (1 + other.get())
    return x


def set_again(x, value):
    token = other.set(value)
    if x.sum() > 2:
        x = x + 1
    other.reset(token)
    again = other.set(value + 1)
    x = x + other.get()
    other.reset(again)
    return x, other.get()


def nested(x, value):
    outer = other.set(value)
    inner = other.set(value * 2)
    if x.sum() > 2:
        x = x + other.get()
    other.reset(inner)
    if x.mean() > 1:
        x = x + other.get()
    other.reset(outer)
    return x


def twice(x, value):
    token = other.set(value)
    if x.sum() > 2:
        x = x + 1
    other.reset(token)
    try:
        other.reset(token)
    except RuntimeError as error:
        return x, type(error).__name__
    return x


def of_another(x, value):
    token = other.set(value)
    try:
        if x.sum() > 2:
            x = x + 1
        collector.reset(token)
    except ValueError as error:
        x = x - 1
        other.reset(token)
        return x, type(error).__name__
    return x


def without_default(x, value):
    token = bare.set(value)
    if x.sum() > 2:
        x = x + bare.get()
    bare.reset(token)
    try:
        return x + bare.get()
    except LookupError:
        return x * 3


kept = []


def keeps(x, value):
    """The token stays visible: whether it was used shows."""
    token = other.set(value)
    kept.append(token)
    if x.sum() > 2:
        x = x + 1
    other.reset(token)
    return x


def foreign(x, token):
    """A token of another context."""
    if x.sum() > 2:
        x = x + 1
    try:
        other.reset(token)
    except ValueError:
        return x * 2
    return x


for step in range(12):
    x = torch.full((2,), float(step % 4))
    print(step, around(x, [step] * (step % 3)), read_after(x, step % 5), set_again(x, step % 3), nested(x, step % 4), other.get())
    print(step, twice(x, step), of_another(x, step), without_default(x, step))
    print(step, keeps(x, step), "used" in repr(kept[-1]), kept[-1].old_value)
    print(step, foreign(x, other.set(step)), other.get())
    token = contextvars.copy_context().run(other.set, 5)
    print(step, foreign(x, token), other.get())
    print(step, contextvars.copy_context().run(around, x, [1]), contextvars.copy_context().run(read_after, x, 3))
