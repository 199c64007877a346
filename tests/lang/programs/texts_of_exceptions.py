"""Texts of exceptions that hold lists, dicts and numbers of tensors, which are others on each call."""

import torch


def shown(x):
    error = ValueError((x + 1).tolist())
    return str(error)


def represented(x):
    return repr(KeyError((x * 2).tolist(), {"n": (x + 3).tolist()}))


def formatted(x):
    error = RuntimeError([1, (x + 1).tolist()])
    return f"{error}", "%s" % error, "{}".format(error), error.args[0][1][0]


def raised(x):
    values = (x + 1).tolist()
    try:
        raise ValueError(values, "text")
    except ValueError as error:
        return str(error), error.args


def written(x, held):
    error = ValueError(held)
    held.append(x.shape[0])
    return str(error), x + 1


def printed(x, held):
    print(ValueError(held), ValueError((x + 1).sum().item()))
    return x


class Own(Exception):
    pass


def own(x, held):
    error = Own(held, {"a": held})
    return str(error), repr(error)


with torch.no_grad():
    for turn in range(10):
        x = torch.ones(2) * turn
        print(shown(x), represented(x), formatted(x), raised(x))
        print(written(x, [turn]), printed(x, [turn, "t"]).sum(), own(x, [turn]))
