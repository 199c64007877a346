"""What stands for a function or a module that is to be compiled: the forms that torch.compile gives, and what they run."""

import functools
import inspect
import types
import weakref

import dynrun
import torch

stance = types.SimpleNamespace(eager=False)  # torch.compiler.set_stance("force_eager"): no back end is asked
modules = weakref.WeakSet()  # of the class below; they become torch's own when torch._dynamo is imported


def compiled(fn, scope):
    """What stands for `fn`, run inside a scope (see src/engine/scope.h): a function, or a module with the parameters of `fn`."""
    if not callable(fn):
        raise TypeError(f"dynrun takes a function or a module, not {type(fn).__name__!r}")
    return Context(scope)(fn)


def own(function):
    """The function with code of its own: what is recorded of it is kept by code."""
    made = types.FunctionType(function.__code__.replace(), function.__globals__, function.__name__, function.__defaults__, function.__closure__)
    made.__kwdefaults__ = function.__kwdefaults__
    return made


class Context:
    """How compiled functions are made; what an optimized module keeps of it."""

    _hooks = None
    callback = None

    def __init__(self, scope):
        self.scope = scope
        self.fullgraph, self._dynamic = bool(scope[1]), scope[3]

    def __call__(self, fn):
        if isinstance(fn, torch.nn.Module):
            return self.module(fn)
        if inspect.isclass(fn):
            name = "_call_impl" if issubclass(fn, torch.nn.Module) else "__call__"
            setattr(fn, name, self.function(getattr(fn, name)))
            return fn
        return self.function(fn)

    def module(self, module):
        made = OptimizedModule(module, self)
        made._torchdynamo_orig_callable = module.forward
        made._torchdynamo_wrapper_id = id(made)
        made.get_compiler_config = no_config
        modules.add(made)
        return made

    def function(self, fn):
        def inside(*args, **kwargs):
            return fn(*args, **kwargs)

        def compile_wrapper(*args, **kwargs):
            return (inside if stance.eager else run)(*args, **kwargs)

        # dynrun's own back end goes on into whatever calls the function; all else is recorded by itself.
        plain = self.scope[0] is None
        run = None if plain else dynrun._Scoped(own(inside), self.scope)
        made = own(inside if plain else compile_wrapper)
        if plain:
            dynrun._mark(made, self._dynamic, self.scope[1])
        functools.update_wrapper(made, fn)
        made._torchdynamo_orig_callable = fn
        made._torchdynamo_wrapper_id = id(made)
        made.get_compiler_config = no_config
        return made


def no_config():
    return {}


class OptimizedModule(torch.nn.Module):
    """A module whose calls are compiled; all else is the module's that it stands for. torch's class of that name takes a second to import."""

    KEPT = {"_orig_mod", "dynamo_ctx", "_torchdynamo_orig_callable", "_torchdynamo_wrapper_id", "get_compiler_config", "forward", "_forward",
            "_super_module_initialized", "__dict__"}

    def __init__(self, module, context):
        object.__setattr__(self, "_orig_mod", module)
        object.__setattr__(self, "_super_module_initialized", False)
        super().__init__()
        del self.__dict__["_orig_mod"]
        self._super_module_initialized = True
        self._modules["_orig_mod"] = module
        self.dynamo_ctx = context
        self.forward = context(module.__call__)

    def __len__(self):
        if not hasattr(type(self._orig_mod), "__len__"):
            raise TypeError(f"{type(self._orig_mod).__name__} does not support len()")
        return len(self._orig_mod)

    def __reduce__(self):
        return compiled, (self._orig_mod, self.dynamo_ctx.scope)

    @property
    def training(self):
        return self._orig_mod.training

    @training.setter
    def training(self, value):
        if self._super_module_initialized:
            self._orig_mod.training = value

    def __getattr__(self, name):
        if name == "_orig_mod":
            return self._modules["_orig_mod"]
        return getattr(self._orig_mod, name)

    def __setattr__(self, name, value):
        if hasattr(type(self), name) or name in self.KEPT:
            return super().__setattr__(name, value)
        return setattr(self._orig_mod, name, value)

    def __delattr__(self, name):
        if hasattr(type(self), name) or name in self.KEPT:
            return super().__delattr__(name)
        return delattr(self._orig_mod, name)

    def __dir__(self):
        return sorted({*dir(self._orig_mod), *super().__dir__()})


OptimizedModule.__qualname__, OptimizedModule.__module__ = "OptimizedModule", "torch._dynamo.eval_frame"


def join_torch(eval_frame):
    """torch._dynamo is there now: `isinstance(m, torch._dynamo.OptimizedModule)` holds from here on."""
    global OptimizedModule
    ours, OptimizedModule = OptimizedModule, eval_frame.OptimizedModule
    for module in list(modules):
        if type(module) is ours:
            module.__class__ = OptimizedModule
