"""Functions, closures, statements: each function takes two float tensors of shape 4x3 and uses one construct between
operators. For capture.py."""

import torch
import torch.nn.functional as F
from capture_classes import Base

CASES = {}


def case(function):
    CASES[function.__name__] = function
    return function


@case
def closure_nonlocal(x, y):
    total = x

    def add(t):
        nonlocal total
        total = total + t
    add(y)
    add(x)
    return total


@case
def closure_factory(x, y):
    def scaler(n):
        return lambda t: t * n
    return scaler(2)(x) + [scaler(i) for i in range(3)][1](y)


def variadic(first, *rest, factor=1, **named):
    return first + sum(rest) * factor + sum(named.values()) + len(named)


@case
def call_star(x, y):
    return variadic(x, *[y, x], factor=2, **{"a": y}) + variadic(*(x,)) + variadic(x, b=y)


def positional(a, /, b, *, c=3):
    return a * b + c


@case
def call_positional_only(x, y):
    return positional(x, y) + positional(x, b=y, c=2)


@case
def call_recursion(x, y):
    def power(t, n):
        return t if n == 0 else power(t * y, n - 1)
    return power(x, 3)


@case
def call_lambda_default(x, y):
    return (lambda t, k=2: t * k)(x) + (lambda *a: sum(a))(x, y)


@case
def call_bound_in_table(x, y):
    table = {"relu": torch.relu, "tanh": F.tanh, "twice": lambda t: t * 2}
    return table["relu"](x) + table["twice"](y) + sum(f(x) for f in table.values())


TOTAL = 0


@case
def global_write(x, y):
    global TOTAL
    TOTAL = x.shape[0]
    return x * TOTAL + y


@case
def delete_names(x, y):
    z = x + y
    d = {"a": z, "b": x}
    del d["a"], x
    return z * len(d)


@case
def match_values(x, y):
    match x.dim(), "mode":
        case (1, _):
            return x
        case (2, "mode" | "other") if y is not None:
            return x + y
    return y


@case
def match_patterns(x, y):
    out = x
    for item in [[x, y], {"k": y, "n": 2}, Base(x), 3, "text", None]:
        match item:
            case [a, b]:
                out = out + a * b
            case {"k": t, **rest}:
                out = out + t * len(rest)
            case Base(value=v):
                out = out + v
            case int(n):
                out = out * n
            case str() | None:
                out = out + 1
    return out


@case
def conditional_chain(x, y):
    z = x if x.shape[0] > 3 else y
    return z + (y if 1 < x.dim() < 3 else x) if x is not y else x


@case
def while_loop(x, y):
    i = 0
    while i < 3:
        x = x + y * i
        i += 1
    else:
        x = x * 2
    return x
