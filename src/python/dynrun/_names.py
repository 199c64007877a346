"""What the program calls the values that a graph is given."""

import functools
import inspect
import re
import types

import torch

FN = "frame.__closure__[0].cell_contents"  # in a function of _wrap.py: what it stands for
CALLS = ("__call__", "_wrapped_call_impl", "_call_impl")
CELL = re.compile(r"\.__closure__\[(\d+)\]\.cell_contents")


def own(function, named=None):
    """The function with code of its own: what is recorded of it is kept by code. Its last constant holds the names that `named` gives its values."""
    code = function.__code__
    made = types.FunctionType(code.replace(co_consts=(*code.co_consts, names_of(named))), function.__globals__, function.__name__, function.__defaults__, function.__closure__)
    made.__kwdefaults__ = function.__kwdefaults__
    return made


def names_of(fn):
    """Of the positional arguments, of all others that are positional, and of the variables of the functions around it."""
    variables = getattr(getattr(fn, "__code__", None), "co_freevars", ())
    if isinstance(getattr(fn, "__wrapped__", None), torch.nn.Module) and variables == ("fn",):
        variables = ("self",)  # torch._dynamo puts a function around modules of its own
    fn, bound = named_function(fn)
    code = getattr(fn, "__code__", None)
    if code is None:
        return (), "args", variables
    others = code.co_varnames[code.co_argcount + code.co_kwonlyargcount] if code.co_flags & inspect.CO_VARARGS else "args"
    return code.co_varnames[bound:code.co_argcount], others, variables


def named_function(fn):
    """The function whose parameters name what a call of `fn` is given, and how many of them are bound already."""
    bound = 0
    while True:
        code = getattr(fn, "__code__", None)
        if isinstance(fn, functools.partial):
            fn, bound = fn.func, bound + len(fn.args)
        elif isinstance(fn, types.MethodType) and isinstance(fn.__self__, torch.nn.Module) and fn.__name__ in CALLS:
            fn = fn.__self__.forward
        elif isinstance(fn, torch.nn.Module):
            fn = fn.forward
        elif isinstance(fn, types.MethodType):
            fn, bound = fn.__func__, bound + 1
        elif hasattr(fn, "__wrapped__") and code and code.co_argcount == 0:  # a decorator's function, which hands on what it is given
            fn = fn.__wrapped__
        elif code is None and isinstance(getattr(type(fn), "__call__", None), types.FunctionType):
            fn, bound = type(fn).__call__, bound + 1
        else:
            return fn, bound


def shown(path):
    """`self._modules['fc']._parameters['weight']` as the program writes it: `self.fc.weight`."""
    path = re.sub(r"\._(?:modules|parameters|buffers)\['([^']*)'\]", r".\1", path)
    return re.sub(r"type\((.+)\)\.(\w+)", r"\1.\2", path)


def value_name(path, code):
    """Of a value that a function with this code was given, or found in `path`. By way of _wrap.py `args[0].weight` is `x.weight`, as the
    program's function has it."""
    if code.co_filename == "<dynrun>/_wrap.py":
        names = code.co_consts[-1]
        path = inner_path(path, *(names if isinstance(names, tuple) and len(names) == 3 else ((), "args", ())))
    elif path.startswith("frame.") and (variable := CELL.match(path, len("frame"))):
        path = code.co_freevars[int(variable[1])] + path[variable.end():]
    return shown(path)


def inner_path(path, arguments, others, variables):
    if given := re.match(r"args\[(\d+)\]", path):
        at = int(given[1])
        name = arguments[at] if at < len(arguments) else f"{others}[{at - len(arguments)}]"
        return name + path[given.end():]
    if keyword := re.match(r"kwargs\['(\w+)'\]", path):
        return keyword[1] + path[keyword.end():]
    if FN not in path:
        return path
    before, rest = path.split(FN, 1)
    if (variable := CELL.match(rest)) and int(variable[1]) < len(variables):
        return before + variables[int(variable[1])] + rest[variable.end():]
    return before + "self" + rest.removeprefix(".__self__")


def module_entry(path, class_name, code):
    """Of a module's call, as torch.compile has it in `nn_module_stack`: {key: ("L['self'].layer.0", the class)}."""
    root, rest = re.match(r"(\w*)(.*)", value_name(path, code)).groups()
    is_local = path.startswith(("args[", "kwargs[", "frame.")) or root in code.co_varnames
    full = f"{'L' if is_local else 'G'}['{root}']{rest}"
    return {re.sub(r"\W+", "_", full).strip("_"): (full, module_class(class_name))}


def module_class(text):
    """The class of modules with this full name and address; its name where it is gone. No code of metaclasses runs."""
    name, address = text.rsplit("@", 1)
    waiting = [torch.nn.Module]
    while waiting:
        found = waiting.pop()
        if id(found) == int(address, 16) and name.endswith("." + type.__dict__["__qualname__"].__get__(found)):
            return found
        waiting += type.__subclasses__(found)
    return name
