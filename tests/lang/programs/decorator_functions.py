import functools
import torch
from support import seq, show


def logged(f):
    @functools.wraps(f)
    def wrapper(*args, **kwargs):
        wrapper.calls += 1
        print("call", f.__name__, wrapper.calls)
        return f(*args, **kwargs)

    wrapper.calls = 0
    return wrapper


def scaled(by):
    def decorate(f):
        def wrapper(x):
            return f(x) * by
        return wrapper
    return decorate


@logged
@scaled(2.0)
@scaled(by=0.5)
def model(x):
    return x + 1


for step in range(5):
    show(model(seq(2, start=step % 2)), model.calls)
