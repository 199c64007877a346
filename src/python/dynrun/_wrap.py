"""What stands for a function or a module that is to be compiled: the forms that torch.compile gives, and what they run."""

import functools
import inspect
import types
import weakref

import dynrun
import torch

own = dynrun._part("_names").own
stance = types.SimpleNamespace(usual=True, eager=False, backend=None)  # torch.compiler.set_stance: no back end is asked, or another one
modules = weakref.WeakSet()  # of the class below; they become torch's own when torch._dynamo is imported


def take_stance(eager, backend):
    """For all functions and modules that are compiled."""
    stance.usual, stance.eager, stance.backend = not eager and backend is None, eager, backend


def compiled(fn, scope):
    """What stands for `fn`, run inside a scope (see src/engine/scope.h): a function, or a module with the parameters of `fn`."""
    return standing_for(fn, Context(scope))


def disabled(fn):
    """What stands for `fn`, run without recording or replay: a function, a module with the parameters of `fn`, or the class itself."""
    return standing_for(fn, Disabled())


def standing_for(fn, context):
    if isinstance(fn, (staticmethod, classmethod)):
        return type(fn)(standing_for(fn.__func__, context))
    check_callable(fn)
    return context(fn)


def uncompiled(fn):
    """What the program wrote, where `fn` stands for it compiled; Python code that calls it, where it is none."""
    while True:
        if isinstance(fn, torch.nn.Module) and "_orig_mod" in fn._modules and not isinstance(vars(fn).get("dynamo_ctx"), Disabled):
            fn = fn._orig_mod
        elif isinstance(fn, types.FunctionType) and hasattr(fn, "_torchdynamo_orig_callable") and not hasattr(fn, "_torchdynamo_disable"):
            fn = fn._torchdynamo_orig_callable
        elif runs_python(fn):
            return fn
        else:
            tensor = getattr(fn, "__self__", None)
            parts = (getattr(type(tensor), fn.__name__), tensor) if isinstance(tensor, torch.Tensor) else (fn,)
            return functools.partial(lambda *args, **kwargs: args[0](*args[1:], **kwargs), *parts)


def runs_python(fn):
    """Whether a call of `fn` begins with code in Python, by which it is recorded."""
    if isinstance(fn, functools.partial):
        return runs_python(fn.func)
    if isinstance(fn, types.MethodType):
        return runs_python(fn.__func__)
    return isinstance(fn, types.FunctionType) or isinstance(getattr(type(fn), "__call__", None), types.FunctionType)


def check_callable(fn):
    if not callable(fn):
        forgotten = ": @dynrun.optimize takes parentheses, @dynrun.optimize()" if isinstance(fn, torch.Tensor) else ""
        raise TypeError(f"dynrun takes a function or a module, not {type(fn).__name__!r}{forgotten}")


class Standing:
    """How what stands for functions, modules and classes is made; what an optimized module keeps of it. `function` is the subclass's."""

    _hooks = None
    callback = None
    fullgraph, _dynamic = False, None
    methods = ()  # of a class, that are replaced besides its objects' call

    def __call__(self, fn):
        if not callable(fn):
            raise AssertionError(f"A callable function is expected, but {type(fn)} is provided.")  # as torch does
        if isinstance(fn, torch.nn.Module):
            return self.module(fn)
        if not inspect.isclass(fn):
            return self.function(fn)
        for name in (*self.methods, "_call_impl" if issubclass(fn, torch.nn.Module) else "__call__"):
            if inspect.isfunction(getattr(fn, name, None)):
                setattr(fn, name, self.function(getattr(fn, name)))
        return fn

    def module(self, module):
        made = OptimizedModule(module, self)
        made._torchdynamo_orig_callable = module.forward
        made._torchdynamo_wrapper_id = id(made)
        made.get_compiler_config = no_config
        modules.add(made)
        return made


class Context(Standing):
    """Of what is compiled."""

    def __init__(self, scope):
        self.scope = scope
        self.fullgraph, self._dynamic = bool(scope[1]), scope[3]

    def __enter__(self):
        raise RuntimeError("torch._dynamo.optimize(...) is used with a context manager: use it as a decorator, or dynrun.optimize")

    def __exit__(self, *exception):
        return False

    def module(self, module):
        if self.scope[0] is not None:
            import torch._dynamo  # noqa: F401 - its graphs need it soon, and modules change their class with it
        return super().module(module)

    def again(self, fn):
        """What makes such a one of `fn` in another process."""
        return compiled, (fn, self.scope)

    def function(self, fn):
        def inside(*args, **kwargs):
            return fn(*args, **kwargs)

        def compile_wrapper(*args, **kwargs):
            if stance.usual:
                return run(*args, **kwargs)
            return (inside if stance.eager else forced())(*args, **kwargs)

        def forced():
            if stance.backend not in others:
                others[stance.backend] = dynrun._Scoped(own(inside, fn), dynrun._part("_backends").scope(stance.backend, self.scope[1], self._dynamic, None, None), True)
            return others[stance.backend]

        # dynrun's own back end goes on into whatever calls the function; all else is recorded by itself.
        others, plain = {}, self.scope[0] is None
        run = own(inside, fn)
        made = own(compile_wrapper, fn)
        if plain or self.fullgraph:
            dynrun._mark(made if plain else run, self._dynamic, self.scope[1])
        run = run if plain else dynrun._Scoped(run, self.scope)
        functools.update_wrapper(made, fn)
        made._torchdynamo_orig_callable = fn
        made._torchdynamo_wrapper_id = id(made)
        made.get_compiler_config = no_config
        return made


def no_config():
    return {}


class Disabled(Standing):
    """Of what is switched off."""

    methods = ("__init__",)

    def again(self, fn):
        return disabled, (fn,)

    def function(self, fn):
        if inspect.isgeneratorfunction(fn):
            def made(*args, **kwargs):
                return (yield from Steps(fn(*args, **kwargs)))
        elif inspect.iscoroutinefunction(fn):
            async def made(*args, **kwargs):
                return await Steps(fn(*args, **kwargs))
        elif inspect.isasyncgenfunction(fn):
            async def made(*args, **kwargs):
                items = AsyncSteps(fn(*args, **kwargs))
                async for item in items:
                    try:
                        items.sent = yield item
                    except GeneratorExit:
                        await items.close()
                        raise
                    except BaseException as error:
                        items.thrown = error
        else:
            def made(*args, **kwargs):
                return dynrun._apart(fn, *args, **kwargs)
        made = functools.update_wrapper(own(made, fn), fn)
        awaitable = isinstance(fn, types.FunctionType) and fn.__code__.co_flags & inspect.CO_ITERABLE_COROUTINE
        return types.coroutine(made) if awaitable else made


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


class AsyncSteps:
    """An asynchronous generator, each step of which runs switched off. The next one is given what was `sent`, or is raised what was `thrown`."""

    sent = thrown = None

    def __init__(self, body):
        self.body = body

    def __aiter__(self):
        return self

    async def __anext__(self):
        (sent, self.sent), (thrown, self.thrown) = (self.sent, None), (self.thrown, None)
        return await Steps(self.body.asend(sent) if thrown is None else self.body.athrow(thrown))

    async def close(self):
        await Steps(self.body.aclose())


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
        return self.dynamo_ctx.again(self._orig_mod)

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
