"""Helpers of the language programs: deterministic inputs and printing that hides the last bits of floats."""

import math

import torch

# Exact fractions of two would sit on the edge of a decimal rounding; this offset moves them off it.
_OFF_EDGE = 1.37e-4


def number(value):
    """A float as text with about three decimals, the same for values that differ in their last bits."""
    if isinstance(value, complex):
        return f"({number(value.real)},{number(value.imag)})"
    if isinstance(value, bool) or not isinstance(value, float):
        return repr(value)
    if math.isnan(value) or math.isinf(value):
        return repr(value)
    return f"{round(value + _OFF_EDGE * max(1.0, abs(value)), 3):.5g}"


def nested(value):
    """Numbers in nested lists as text."""
    if isinstance(value, list):
        return "[" + " ".join(nested(item) for item in value) + "]"
    return number(value)


def text(value):
    """Any nesting of tensors, numbers and containers as one line of text."""
    if isinstance(value, torch.Tensor):
        dtype = str(value.dtype).replace("torch.", "")
        shape = "x".join(str(size) for size in value.shape)
        grad = " grad" if value.requires_grad else ""
        if value.layout is not torch.strided:
            return f"<{value.layout} {dtype} {shape}{grad} {nested(value.detach().to_dense().tolist())}>"
        data = value.detach()
        data = data.tolist() if data.numel() <= 64 else [data[0].flatten()[:3].tolist(), data.double().sum().item()]
        return f"<{dtype} {shape} {tuple(value.stride())}{grad} {nested(data)}>"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key!r}: {text(item)}" for key, item in value.items()) + "}"
    if isinstance(value, tuple):
        return f"{type(value).__name__}(" + ", ".join(text(item) for item in value) + ")"
    if isinstance(value, list):
        return "[" + ", ".join(text(item) for item in value) + "]"
    return number(value)


def show(*values):
    """Prints each value: shape, dtype, strides and rounded contents of tensors."""
    print(*[value if isinstance(value, str) else text(value) for value in values])


def seq(*shape, start=0.0, dtype=torch.float32):
    """A tensor of smooth values without a pattern that rounding could hit; `start` picks another one."""
    count = math.prod(shape)
    return (torch.sin(torch.arange(count, dtype=torch.float64) * 1.7 + start + 0.3)).reshape(shape).to(dtype)


def fixed(module, start=0.0):
    """Fills every parameter and buffer of a module with values of `seq`; gives the module back."""
    with torch.no_grad():
        for index, value in enumerate(list(module.parameters()) + list(module.buffers())):
            if value.is_floating_point():
                value.copy_(seq(*value.shape, start=start + index).abs() * 0.5 + 0.05)
    return module


def trace():
    """The exception being handled, as traceback text with the folders of files removed."""
    import re
    import traceback
    return re.sub(r'File ".*/([^/"]+)"', r'File "\1"', traceback.format_exc()).rstrip()
