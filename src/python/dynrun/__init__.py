"""dynrun: PyTorch scripts, faster.

A script needs nothing of this module: `dynrun script.py` records and compiles what is called a second time with tensors. Here is
what a script may ask for beyond that:

    compile         records a function or module at its first call; fullgraph, other back ends, dynamic sizes
    optimize        the same for everything that runs inside a `with` block or a function
    disable         runs a function or a block without recording or replay
    graph_break     ends the recorded graph here
    explain         runs a call and tells what was recorded and why it is not one graph
    export          a call as one torch.fx.GraphModule, or the break that prevents it
    list_backends   names that `backend` may be
    stats, reset_stats, reset
"""

import json as _json
import threading as _threading
import types as _types
import typing as _typing

__all__ = ["compile", "optimize", "disable", "graph_break", "explain", "export", "list_backends", "stats", "reset_stats", "reset"]
__path__ = []
__version__ = "@PROJECT_VERSION@"

_Any = _typing.Any


def _part(name: str) -> _types.ModuleType:
    """The submodule of that name, loaded when it is first needed."""
    import sys
    full = "dynrun." + name
    if full not in sys.modules:
        module = _types.ModuleType(full)
        module.__file__ = f"<dynrun>/{name}.py"
        exec(__builtins__["compile"](_source(name), module.__file__, "exec"), vars(module))
        sys.modules[full] = module
    return sys.modules[full]


def _check(dynamic: bool | None, fullgraph: bool) -> None:
    if dynamic not in (None, True, False):
        raise TypeError(f"dynrun takes None, True or False as dynamic, not {dynamic!r}")
    if fullgraph not in (True, False):
        raise TypeError(f"dynrun takes True or False as fullgraph, not {fullgraph!r}")


def compile(fn: _Any = None, *, fullgraph: bool = False, dynamic: bool | None = None, backend: _Any = "dynrun", mode: str | None = None,
            options: dict | None = None) -> _Any:
    """compile(fn_or_module, *, fullgraph=False, dynamic=None, backend="dynrun", mode=None, options=None) -> fn_or_module

    Records `fn_or_module` at its first call, and compiles it at once. Also as a decorator, with or without arguments. Without it dynrun
    does the same for any function that is called a second time with tensors.

    fullgraph: a graph break raises RuntimeError (torch._dynamo.exc.Unsupported) with the line, the reason and the cure.
    dynamic: which sizes of tensors may be others on later calls without a new recording. None: as --dynamic says, which is
        those that did change; True: all from the first recording; False: none. torch._dynamo.mark_dynamic and mark_static of a
        tensor count before that.
    backend: "dynrun"; "eager" (the recorded operators, one by one); "inductor"; another name of list_backends(); or a callable that
        takes a torch.fx.GraphModule and a list of example inputs and returns a callable, which takes such inputs and returns a tuple.
        It sees each graph once, when it has been recorded: the first call runs the program as it is.
    mode, options: handed to a back end other than "dynrun" as torch.compile does.

    Returns `fn` itself where nothing but dynrun's own back end was asked for; else a function that behaves like it, or for a module
    what torch.compile returns (its parameters and attributes are the module's).

    Raises torch._dynamo.exc.InvalidBackend (a RuntimeError) for an unknown name, TypeError for what cannot be called."""
    if fn is None:
        return lambda f: compile(f, fullgraph=fullgraph, dynamic=dynamic, backend=backend, mode=mode, options=options)
    if isinstance(fn, (staticmethod, classmethod)):
        return type(fn)(compile(fn.__func__, fullgraph=fullgraph, dynamic=dynamic, backend=backend, mode=mode, options=options))
    if not callable(fn):
        raise TypeError(f"dynrun.compile() takes a function or a module, not {type(fn).__name__!r}")
    _check(dynamic, fullgraph)
    if backend == "dynrun" and not fullgraph and mode is None:
        _mark(fn, None if dynamic is None else bool(dynamic))
        return fn
    return _part("_wrap").compiled(fn, _part("_backends").scope(backend, fullgraph, dynamic, mode, options))


class optimize:
    """optimize(backend="dynrun", *, fullgraph=False, dynamic=None): everything that runs inside is recorded at first sight

    `with optimize(...):` for a block, `@optimize(...)` for a function. The arguments mean what they mean to compile()."""

    def __init__(self, backend: _Any = "dynrun", *, fullgraph: bool = False, dynamic: bool | None = None) -> None:
        _check(dynamic, fullgraph)
        self._scope = _part("_backends").scope(backend, fullgraph, dynamic, None, None)
        self._outside = _threading.local()

    def __enter__(self) -> "optimize":
        before = _enter(self._scope)
        vars(self._outside).setdefault("scopes", []).append(before)
        return self

    def __exit__(self, *exception: _Any) -> bool:
        _enter(self._outside.scopes.pop())
        return False

    def __call__(self, fn: _Any) -> _Any:
        return _part("_wrap").compiled(fn, self._scope)


class disable:
    """disable(fn) -> a function, module or class that runs as `fn` does, without recording or replay; `with disable():` for a block."""

    def __new__(cls, fn: _Any = None) -> _Any:
        return super().__new__(cls) if fn is None else _part("_wrap").disabled(fn)

    def __enter__(self) -> "disable":
        _disable(True)
        return self

    def __exit__(self, *exception: _Any) -> bool:
        _disable(False)
        return False

    def __call__(self, fn: _Any) -> _Any:
        return disable(fn)


def explain(fn: _Any) -> _Any:
    """explain(fn)(*args, **kwargs) -> Explanation

    Runs the call once, recorded from scratch, and tells what became of it: `graph_count`, `graph_break_count`, `op_count`, `graphs`
    (torch.fx.GraphModule), `breaks` (dicts with id, reason, file, line, function, count). Its text is for people."""
    if not callable(fn):
        raise TypeError(f"dynrun.explain() takes a function or a module, not {type(fn).__name__!r}")
    return lambda *args, **kwargs: _apart(_part, "_explain").explain(fn, args, kwargs)


def export(fn: _Any, *args: _Any, **kwargs: _Any) -> _Any:
    """export(fn, *args, **kwargs) -> torch.fx.GraphModule

    The call as one graph. The module takes what `fn` takes, in tensors of the same sizes and dtypes and the same numbers and texts,
    which it checks, and gives what `fn` gives; parameters and other tensors that are no arguments are its attributes. `guards` holds
    what it relies on, in words.

    Raises RuntimeError (torch._dynamo.exc.Unsupported) naming the line where a break prevents one graph, and ValueError where the call
    does more than compute its result (writes to outside objects, prints), or takes or gives what a graph cannot (objects of classes)."""
    return _apart(_part, "_export").export(fn, args, kwargs)


def list_backends() -> list[str]:
    """list_backends() -> names that `backend` may be: dynrun's own and those of installed packages (group "torch_dynamo_backends")"""
    return _part("_backends").names()


def reset() -> None:
    """reset()

    Forgets every recording, how hot each function is, and the back ends that compile() was given."""
    import sys
    _reset()
    if "dynrun._backends" in sys.modules:
        _part("_backends").forget()


def stats() -> dict:
    """stats() -> dict

    What has been run, recorded and replayed since the start or the last reset_stats()."""
    return _apart(_json.loads, _stats())
