"""What stands for a function or a module that is to be compiled: the forms that torch.compile gives, and what they run."""

import functools
import inspect
import re
import types
import weakref

import dynrun
import torch

stance = types.SimpleNamespace(usual=True, eager=False, backend=None)  # torch.compiler.set_stance: no back end is asked, or another one
BUILTIN = (types.BuiltinFunctionType, types.MethodDescriptorType, torch._ops.OpOverload, torch._ops.OpOverloadPacket)
modules = weakref.WeakSet()  # of the class below; they become torch's own when torch._dynamo is imported


def take_stance(eager, backend):
    """For all functions and modules that are compiled."""
    stance.usual, stance.eager, stance.backend = not eager and backend is None, eager, backend


def compiled(fn, scope):
    """What stands for `fn`, run inside a scope (see src/engine/scope.h): a function, or a module with the parameters of `fn`."""
    check_callable(fn)
    return Context(scope)(fn)


def disabled(fn):
    """What stands for `fn`, run without recording or replay: a function, a module with the parameters of `fn`, or the class itself."""
    check_callable(fn)
    return Disabled()(fn)


def uncompiled(fn):
    """What the program wrote, where `fn` stands for it compiled; Python code that calls it, where it is none."""
    while True:
        if isinstance(fn, torch.nn.Module) and "_orig_mod" in fn._modules and not isinstance(vars(fn).get("dynamo_ctx"), Disabled):
            fn = fn._orig_mod
        elif isinstance(fn, types.FunctionType) and hasattr(fn, "_torchdynamo_orig_callable") and not hasattr(fn, "_torchdynamo_disable"):
            fn = fn._torchdynamo_orig_callable
        elif isinstance(fn, BUILTIN):
            return functools.partial(lambda *args, **kwargs: args[0](*args[1:], **kwargs), fn)
        else:
            return fn


def check_callable(fn):
    if not callable(fn):
        forgotten = ": @dynrun.optimize takes parentheses, @dynrun.optimize()" if isinstance(fn, torch.Tensor) else ""
        raise TypeError(f"dynrun takes a function or a module, not {type(fn).__name__!r}{forgotten}")


def own(function, named=None):
    """The function with code of its own: what is recorded of it is kept by code. Its last constant holds the names of the arguments that `named` takes."""
    code = function.__code__
    made = types.FunctionType(code.replace(co_consts=(*code.co_consts, parameters_of(named))), function.__globals__, function.__name__, function.__defaults__, function.__closure__)
    made.__kwdefaults__ = function.__kwdefaults__
    return made


def parameters_of(fn):
    if inspect.ismethod(fn) and isinstance(fn.__self__, torch.nn.Module) and fn.__name__ in ("__call__", "_wrapped_call_impl"):
        fn = fn.__self__.forward
    code = getattr(fn, "__code__", None)
    return code.co_varnames[int(inspect.ismethod(fn)):code.co_argcount] if code else ()


def argument_name(path, code):
    """What the program calls a value that its function was given by way of this module: `args[0].weight` is `x.weight`."""
    if code.co_filename != "<dynrun>/_wrap.py":
        return path
    if found := re.match(r"args\[(\d+)\]", path):
        names = code.co_consts[-1]
        at = int(found[1])
        return (names[at] if isinstance(names, tuple) and at < len(names) else found[0]) + path[found.end():]
    return re.sub(r"^kwargs\['(\w+)'\]", r"\1", path)


class Context:
    """How compiled functions are made; what an optimized module keeps of it."""

    _hooks = None
    callback = None

    def __init__(self, scope):
        self.scope = scope
        self.fullgraph, self._dynamic = bool(scope[1]), scope[3]

    def __enter__(self):
        raise RuntimeError("torch._dynamo.optimize(...) is used with a context manager: use it as a decorator, or dynrun.optimize")

    def __exit__(self, *exception):
        return False

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
            if stance.usual:
                return run(*args, **kwargs)
            return (inside if stance.eager else forced())(*args, **kwargs)

        def forced():
            if stance.backend not in others:
                others[stance.backend] = dynrun._Scoped(own(inside, fn), dynrun._part("_backends").scope(stance.backend, self.scope[1], self._dynamic, None, None))
            return others[stance.backend]

        # dynrun's own back end goes on into whatever calls the function; all else is recorded by itself.
        others, plain = {}, self.scope[0] is None
        run = own(inside, fn) if plain else dynrun._Scoped(own(inside, fn), self.scope)
        made = own(compile_wrapper, fn)
        if plain:
            dynrun._mark(made, self._dynamic, self.scope[1])
        functools.update_wrapper(made, fn)
        made._torchdynamo_orig_callable = fn
        made._torchdynamo_wrapper_id = id(made)
        made.get_compiler_config = no_config
        return made


def no_config():
    return {}


class Disabled:
    """As Context, for what is switched off."""

    _hooks = None
    callback = None
    fullgraph, _dynamic = False, None

    def __call__(self, fn):
        if isinstance(fn, torch.nn.Module):
            return Context.module(self, fn)
        if inspect.isclass(fn):
            for name in ("__init__", "_call_impl" if issubclass(fn, torch.nn.Module) else "__call__"):
                if inspect.isfunction(getattr(fn, name, None)):
                    setattr(fn, name, self.function(getattr(fn, name)))
            return fn
        return self.function(fn)

    def function(self, fn):
        if inspect.isgeneratorfunction(fn):
            def made(*args, **kwargs):
                return (yield from Steps(fn(*args, **kwargs)))
        elif inspect.iscoroutinefunction(fn):
            async def made(*args, **kwargs):
                return await Steps(fn(*args, **kwargs))
        else:
            def made(*args, **kwargs):
                return dynrun._apart(fn, *args, **kwargs)
        return functools.update_wrapper(own(made, fn), fn)


class Steps:
    """A generator or coroutine, each step of which runs switched off."""

    def __init__(self, body):
        self.body = body

    def __iter__(self):
        return self

    __await__ = __iter__

    def __next__(self):
        return dynrun._apart(self.body.send, None)

    def send(self, value):
        return dynrun._apart(self.body.send, value)

    def throw(self, *error):
        return dynrun._apart(self.body.throw, *error)

    def close(self):
        return dynrun._apart(self.body.close)


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
        context = self.dynamo_ctx
        return (disabled, (self._orig_mod,)) if isinstance(context, Disabled) else (compiled, (self._orig_mod, context.scope))

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
