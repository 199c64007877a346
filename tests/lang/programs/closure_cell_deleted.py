"""`del` of variables that inner functions share."""
import torch


def in_a_loop(x):
    for turn in range(3):
        outputs = [x * turn, x + turn]
        total = sum(one for one in outputs)
        found = next((one for one in outputs if one is not None), None)
        x = total + found
        del outputs
    return x


def unbound_afterwards(x):
    value = x * 2

    def read():
        return value

    y = read()
    del value
    try:
        return y + read()
    except NameError as error:
        return y, str(error)


def bound_again(x):
    value = x

    def read():
        return value + 1

    first = read()
    del value
    value = x * 3
    return first + read()


def of_the_outer(x):
    state = x + 1

    def drop():
        nonlocal state
        del state

    def put():
        nonlocal state
        state = x - 1

    drop()
    if x.sum() > 3:
        put()
    try:
        return state * 2
    except NameError:
        return x * 0


def across_a_break(x):
    kept = x * 2

    def read():
        return kept

    if x.sum() > 2:
        x = x + read()
    del kept
    return x


class Noisy:
    def __del__(self):
        print("gone")


def dies_there(x):
    thing = Noisy()

    def use():
        return thing

    x = x + (1 if use() else 0)
    del thing
    print("after")
    return x


for step in range(6):
    x = torch.full((2,), float(step % 4))
    print(step, in_a_loop(x), unbound_afterwards(x), bound_again(x), of_the_outer(x), across_a_break(x), dies_there(x))
