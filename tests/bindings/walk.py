"""Every torch binding by (group, name), and the text of the table of their classes."""

import textwrap
import types

import torch

FUNCTION_GROUPS = {"torch": torch._C._VariableFunctions, "nn": torch._C._nn, "fft": torch._C._fft, "linalg": torch._C._linalg,
                   "special": torch._C._special, "sparse": torch._C._sparse, "nested": torch._C._nested, "torch._C": torch._C}


def is_function(value):
    return isinstance(value, types.BuiltinFunctionType)


def bindings():
    seen = set()
    for group, owner in FUNCTION_GROUPS.items():
        for name in sorted(dir(owner)):
            value = getattr(owner, name)
            if is_function(value) and not (name.startswith("__") and name not in ("__and__", "__or__", "__xor__", "__lshift__", "__rshift__")):
                seen.add(id(value))
                yield (group, name), value
    for name in sorted(dir(torch)):
        if is_function(getattr(torch, name)) and not hasattr(torch._C._VariableFunctions, name) and not hasattr(torch._C, name):
            yield ("torch", name), getattr(torch, name)
    for name in sorted(set(torch._C.TensorBase.__dict__) | set(torch.Tensor.__dict__)):
        value = torch.Tensor.__dict__.get(name, torch._C.TensorBase.__dict__.get(name))
        if callable(value) or hasattr(type(value), "__get__"):
            yield ("Tensor", name), value
    for name in sorted({name.split("::")[1].split(".")[0] for name in torch._C._dispatch_get_all_op_names() if name.startswith("aten::")}):
        try:
            yield ("aten", name), getattr(torch.ops.aten, name)
        except AttributeError:
            pass  # an overload name that torch.ops refuses


def class_of(binding, call_class):
    """The class; "python" for Python functions, which the VM runs like any other."""
    inner = getattr(binding, "__func__", binding)
    if isinstance(inner, property):
        inner = inner.fget
    return "python" if isinstance(inner, types.FunctionType) else call_class(inner)


def text(classes):
    lines = [f"# The class of each binding of torch {torch.__version__.split('+')[0]}; written by tests/bindings/run.py --bless."]
    sections = {}
    for (group, name), given in classes.items():
        sections.setdefault((group, given), []).append(name)
    for group, given in sorted(sections):
        lines += [f"[{group} {given}]", *textwrap.wrap(" ".join(sorted(sections[group, given])), 130, break_long_words=False, break_on_hyphens=False)]
    return "\n".join(lines) + "\n"


def parse(text_of_table):
    classes, section = {}, None
    for line in text_of_table.splitlines():
        if line.startswith("["):
            section = line.strip("[]").split(" ")
        elif not line.startswith("#"):
            classes.update({(section[0], name): section[1] for name in line.split()})
    return classes
