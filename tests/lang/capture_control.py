"""Exceptions, contexts, generators, comprehensions: each function takes two float tensors of shape 4x3 and uses one construct between
operators. For capture.py."""

import contextlib

import torch
import torch.nn.functional as F
from torch import nn
from capture_classes import Base

CASES = {}


def case(function):
    CASES[function.__name__] = function
    return function


# Exceptions


class Stop(Exception):
    def __init__(self, value):
        super().__init__("stop")
        self.value = value


def raises(value):
    raise Stop(value)


@case
def exception_custom(x, y):
    try:
        raises(x)
    except Stop as stop:
        return stop.value + y


@case
def exception_key_error(x, y):
    table = {"a": x}
    try:
        z = table["b"]
    except KeyError:
        z = y
    return z + x


TABLE = {"a": 1}


@case
def exception_key_error_outside(x, y):
    try:
        z = TABLE["b"]
    except KeyError as error:
        z = len(error.args)
    return z * y + x


@case
def exception_index_error(x, y):
    try:
        return [x][3]
    except (IndexError, ValueError):
        return x + y


@case
def exception_finally(x, y):
    done = []
    try:
        z = x + y
    finally:
        done.append(1)
    return z * len(done)


@case
def exception_else(x, y):
    try:
        z = x + y
    except ValueError:
        return x
    else:
        z = z * 2
    return z


@case
def exception_stop_iteration(x, y):
    it = iter([x])
    next(it)
    try:
        next(it)
    except StopIteration:
        return x + y


@case
def exception_nested(x, y):
    try:
        try:
            int("a")
        except ValueError as error:
            raise KeyError("b") from error
    except KeyError:
        return x + y


@case
def exception_reraised(x, y):
    try:
        try:
            raise ValueError("a")
        except ValueError:
            z = x * 2
            raise
    except Exception as error:
        return z + y * len(str(error))


@case
def exception_attribute_default(x, y):
    try:
        size = x.nothing
    except AttributeError:
        size = x.shape[0]
    return x * size + y


@case
def exception_assert_caught(x, y):
    try:
        assert x.shape[0] == 3, "rows"
    except AssertionError as error:
        return x + y * len(error.args)


@case
def exception_in_loop(x, y):
    out = x
    for i in range(4):
        try:
            if i == 1:
                continue
            if i == 3:
                raise ValueError
            out = out + y * i
        except ValueError:
            break
        finally:
            out = out + 1
    return out


@case
def exception_type_error(x, y):
    try:
        len(3)
    except TypeError:
        return x + y


@case
def exception_shape_error(x, y):
    try:
        return x @ y
    except RuntimeError:
        return x @ y.t()


@case
def exception_import_error(x, y):
    try:
        import torch.nothing
    except ImportError:
        return x + y


# Context managers


@case
def context_no_grad(x, y):
    with torch.no_grad():
        z = x * weight
    return z + y


weight = nn.Parameter(torch.ones(3))


@case
def context_enable_grad(x, y):
    with torch.no_grad():
        with torch.enable_grad():
            z = (x * weight).requires_grad
        return x + y * z


@torch.no_grad()
def without_grad(x):
    return x * weight


@case
def context_no_grad_decorator(x, y):
    return without_grad(x) + y


@torch.inference_mode()
def inferred(x):
    return x * weight


@case
def context_inference_mode(x, y):
    with torch.inference_mode():
        z = x * weight + y
        return z * 1


@case
def context_inference_decorator(x, y):
    return inferred(x).shape[0] * y


@case
def context_set_grad_enabled(x, y):
    with torch.set_grad_enabled(False):
        z = x * weight
    torch.set_grad_enabled(True)
    return z + y


@case
def context_autocast(x, y):
    with torch.autocast("cpu", dtype=torch.bfloat16):
        z = x @ y.t()
    return z.float() + 1


@case
def context_autocast_off(x, y):
    with torch.autocast("cpu", enabled=False):
        z = x @ y.t()
    return z + 1


@case
def context_record_function(x, y):
    with torch.profiler.record_function("part"):
        z = x + y
    return z * 2


@case
def context_autograd_record(x, y):
    with torch.autograd.profiler.record_function("part"):
        z = x + y
    return z * 2


@case
def context_nullcontext(x, y):
    with contextlib.nullcontext(3) as n:
        return x * n + y


@contextlib.contextmanager
def scaling(t, factor):
    yield t * factor


@case
def context_contextmanager(x, y):
    with scaling(x, 2) as z:
        return z + y


@scaling(torch.ones(1), 2)
def decorated(x):
    return x * 2


@case
def context_contextmanager_decorator(x, y):
    return decorated(x) + y


@contextlib.contextmanager
def flagged(holder):
    before = holder.value
    holder.value = 9
    try:
        yield
    finally:
        holder.value = before


@case
def context_restores(x, y):
    holder = Base(2)
    with flagged(holder):
        z = x * holder.value
    return z + y * holder.value


@case
def context_exit_stack(x, y):
    with contextlib.ExitStack() as stack:
        z = stack.enter_context(scaling(x, 3))
        stack.enter_context(torch.no_grad())
        z = z + y
    return z


@case
def context_suppress(x, y):
    with contextlib.suppress(KeyError):
        {}["a"]
    return x + y


@case
def context_closing_swallows(x, y):
    class Swallow:
        def __enter__(self):
            return self

        def __exit__(self, kind, value, trace):
            return kind is ValueError
    with Swallow():
        raise ValueError("gone")
    return x + y


@case
def context_several(x, y):
    with torch.no_grad(), scaling(x, 2) as z, contextlib.nullcontext():
        return z + y


@case
def context_sdpa_kernel(x, y):
    with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH):
        return F.scaled_dot_product_attention(x[None, None], y[None, None], y[None, None])


# Generators and comprehensions


def pieces(*tensors):
    for t in tensors:
        yield t * 2


def delegated(*tensors):
    count = yield from pieces(*tensors)
    yield tensors[0] + (count or 1)


@case
def generator_for(x, y):
    out = 0
    for t in pieces(x, y):
        out = out + t
    return out


@case
def generator_yield_from(x, y):
    return torch.stack(list(delegated(x, y)))


@case
def generator_send(x, y):
    def accumulate():
        total = 0
        while True:
            value = yield total
            if value is None:
                return
            total = total + value
    g = accumulate()
    next(g)
    g.send(x)
    out = g.send(y)
    g.close()
    return out * 2


@case
def generator_expression_sum(x, y):
    return sum(t * 2 for t in (x, y)) + sum(i for i in range(3))


@case
def generator_expression_any(x, y):
    return x + y if any(t.dim() == 2 for t in (x, y)) and all(t is not None for t in (x, y)) else x


@case
def generator_to_tuple(x, y):
    a, b = (t + 1 for t in (x, y))
    return torch.cat(tuple(t * 2 for t in (a, b))) + max(t.shape[0] for t in (x, y))


@case
def generator_nested(x, y):
    return sum(a * b for a in (x, y) for b in (x, y) if a is not b)


@case
def generator_in_join(x, y):
    return x * len(",".join(str(s) for s in x.shape)) + y


@case
def comprehension_list(x, y):
    return torch.stack([t * i for i, t in enumerate((x, y)) if t is not None])


@case
def comprehension_dict(x, y):
    return sum({k: v * 2 for k, v in {"a": x, "b": y}.items()}.values())


@case
def comprehension_set(x, y):
    return x * len({t.shape for t in (x, y)}) + y * len({i % 2 for i in range(5)})


@case
def comprehension_nested(x, y):
    rows = [[x[i, j] * j for j in range(2)] for i in range(2)]
    return torch.stack([torch.stack(r) for r in rows]) + y[:2, :2]


@case
def walrus(x, y):
    if (n := x.shape[0]) > 2 and (z := x * n) is not None:
        return z + y
    return x
