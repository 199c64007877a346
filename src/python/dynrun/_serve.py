"""torch.compile under dynrun: the same arguments, dynrun's recorder and kernels. Installed when torch has been imported."""

import functools
import inspect
import os
import sys

# Settings of torch._dynamo.config that have a meaning here, or that only say how much Dynamo tells of itself.
HONOURED = {"disable", "assume_static_by_default", "automatic_dynamic_shapes", "dynamic_shapes", "suppress_errors"}
SILENT = {"verbose", "log_file_name", "cache_size_limit", "recompile_limit", "accumulated_cache_size_limit", "accumulated_recompile_limit",
          "capture_scalar_outputs", "capture_dynamic_output_shape_ops", "inline_inbuilt_nn_modules", "force_parameter_static_shapes", "optimize_ddp",
          "specialize_int", "specialize_float", "guard_nn_modules", "allow_empty_graphs", "fail_on_recompile_limit_hit", "fail_on_cache_limit_hit", "allow_unspec_int_on_nn_module"}
told = set()
dynamos = {}  # functions of torch._dynamo that others stand for


def settings():
    """The program's own settings of torch._dynamo.config; what has no meaning here is named, once."""
    config = sys.modules.get("torch._dynamo.config")
    if config is None:
        return {}
    found = {}
    for name, entry in getattr(config, "_config", {}).items():
        value = getattr(entry, "user_override", None)
        if isinstance(value, (bool, int, float, str)) and value != getattr(entry, "default", None):
            found[name] = value
    for name in found.keys() - HONOURED - SILENT:
        tell(f"torch._dynamo.config.{name}")
    return found


def tell(what):
    """Once."""
    if what not in told:
        told.add(what)
        print(f"dynrun: {what} is ignored: it is about how torch.compile records, which dynrun does in its own way", file=sys.stderr)


def is_off(found):
    return bool(found.get("disable")) or os.environ.get("TORCHDYNAMO_DISABLE") == "1" or os.environ.get("TORCH_COMPILE_DISABLE") == "1"


def dynamic_of(dynamic, found):
    if dynamic is None and found.get("assume_static_by_default") is False:
        return True
    if dynamic is None and (found.get("automatic_dynamic_shapes") is False or found.get("dynamic_shapes") is False):
        return False
    return dynamic


def module_name(model):
    name = getattr(model, "__module__", None)
    return name if isinstance(name, str) else ""


def served_already(model):
    """flex_attention warns where it does not see that torch.compile was called with it."""
    module = sys.modules.get(module_name(model))
    if getattr(module, "__name__", None) == "torch.nn.attention.flex_attention":
        getattr(module, "_WARNINGS_SHOWN", set()).add("flex_attention_performance")


def is_of_dynamo(model):
    """torch.cond and its kin have Dynamo look at what they then run: it makes arguments of what functions read besides theirs, so that it
    is differentiated. Without gradients the others than flex_attention need none of it."""
    import torch
    of_operators = module_name(model).startswith("torch._higher_order_ops.")
    return of_operators and torch.is_grad_enabled() or getattr(model, "__name__", "") == "_flex_attention_hop_wrapper"


def by_dynamo(model, backend, fullgraph, dynamic):
    import torch._dynamo  # noqa: F401 - serve_dynamo() follows
    return dynamos["optimize"](backend, nopython=fullgraph, dynamic=dynamic)(model)


def install():
    """Puts dynrun's in the place of torch.compile."""
    import torch
    original = torch.compile

    @functools.wraps(original)
    def compile(model=None, *, fullgraph=False, dynamic=None, backend="inductor", mode=None, options=None, disable=False):
        if model is None:
            def decorate(fn):
                if fn is None:
                    raise RuntimeError("Model can't be None")
                return compile(fn, fullgraph=fullgraph, dynamic=dynamic, backend=backend, mode=mode, options=options, disable=disable)
            return decorate
        import dynrun
        assert dynamic in (None, True, False), f"dynamic is None, True or False, not {dynamic!r}"
        found = settings()
        if is_of_dynamo(model):
            return by_dynamo(model, backend, fullgraph, dynamic)
        if module_name(model).startswith("torch._higher_order_ops."):
            return model
        refused = (mode is not None and options is not None) or (mode is not None and mode not in dynrun._part("_backends").MODES) or not callable(model)
        if refused or disable or is_off(found) or torch.compiler.is_exporting():
            return original(model, fullgraph=fullgraph, dynamic=dynamic, backend=backend, mode=mode, options=options, disable=disable)
        if options and backend == "inductor":
            torch._TorchCompileInductorWrapper(None, {k: v for k, v in options.items() if k not in ("guard_filter_fn", "use_aoti")}, dynamic)  # checks them
        served_already(model)
        own = backend == "inductor"
        scope = dynrun._part("_backends").scope("dynrun" if own else backend, 2 if fullgraph else 0, dynamic_of(dynamic, found), None if own else mode, None if own else options)
        return dynrun._part("_wrap").compiled(model, scope)

    torch.compile = compile


def serve_dynamo():
    """torch._dynamo has been imported: what it offers programs means the same to dynrun."""
    import dynrun
    import torch
    import torch._dynamo as dynamo
    from torch._dynamo import decorators, eval_frame

    disable, reset, set_stance = decorators.disable, dynamo.reset, decorators._set_stance

    @functools.wraps(disable)
    def disable_both(fn=None, recursive=True, *, reason=None, wrapping=True):
        if not wrapping or not recursive:  # torch's own use; or the function alone, which runs as it is in any case
            return disable(fn, recursive, reason=reason, wrapping=wrapping)
        if fn is None:
            return lambda fn: disable_both(fn, reason=reason)
        inner = eval_frame.innermost_fn(fn)
        if not callable(inner) or isinstance(inner, (type, torch.nn.Module)):
            return disable(fn, recursive, reason=reason)
        made = plainly(dynrun.disable(inner))
        skip = eval_frame.FrameAction.SKIP  # where Dynamo itself is at work, it looks neither at this function nor at what it calls
        eval_frame.set_code_exec_strategy(made.__code__, eval_frame.FrameExecStrategy(skip, skip))
        made._torchdynamo_disable, made._torchdynamo_disable_msg, made._torchdynamo_orig_callable, made._torchdynamo_wrapper_id = True, reason, inner, id(made)
        return made

    def plainly(fn):
        """A generator's function is none under torch.compiler.disable: it gives the generator."""
        if not (inspect.isgeneratorfunction(fn) or inspect.iscoroutinefunction(fn)):
            return fn

        @functools.wraps(fn)
        def made(*args, **kwargs):
            return fn(*args, **kwargs)

        return made

    @functools.wraps(reset)
    def reset_both():
        reset()
        dynrun.reset()

    def set_both_stances(stance):
        dynrun._part("_wrap").take_stance(stance.stance == "force_eager", stance.backend)
        if stance.stance in ("fail_on_recompile", "eager_on_recompile"):
            tell(f"torch.compiler.set_stance({stance.stance!r})")
        return set_stance(stance)

    optimize, optimize_assert = dynamo.optimize, dynamo.optimize_assert
    dynamos["optimize"] = optimize

    @functools.wraps(optimize)
    def optimize_here(backend="inductor", *, nopython=False, disable=False, dynamic=None, **hooks):
        found = settings()
        if disable or is_off(found) or torch.compiler.is_exporting():
            return optimize(backend, nopython=nopython, disable=disable, dynamic=dynamic, **hooks)
        for name in (name for name, given in hooks.items() if given is not None):
            tell(f"torch._dynamo.optimize({name}=)")
        scope = dynrun._part("_backends").scope("dynrun" if backend == "inductor" else backend, 2 if nopython else 0, dynamic_of(dynamic, found), None, None)
        return dynrun._part("_wrap").Context(scope)

    @functools.wraps(optimize_assert)
    def optimize_assert_here(backend, **settings):
        return optimize_here(backend, nopython=True, **settings)

    dynamo.optimize, dynamo.optimize_assert = optimize_here, optimize_assert_here
    decorators._set_stance = set_both_stances
    for module in (dynamo, decorators):
        module.graph_break = dynrun.graph_break
        module.disable = disable_both
    dynamo.reset = reset_both
    dynrun._part("_wrap").join_torch(eval_frame)
