"""What is recorded in the place of C code: of torch.autograd.Function's, where nothing is to be differentiated, and of what copy.deepcopy()
asks an object for."""

import copy

import torch
from torch.autograd.function import FunctionCtx, _SingleLevelFunction


class Context(FunctionCtx):
    """What forward() and setup_context() are given: nothing that they save is asked for."""

    dirty_tensors, is_freed = (), False

    def __init__(self, args):
        self.needs_input_grad = tuple([isinstance(arg, torch.Tensor) and arg.requires_grad for arg in args])

    @property
    def saved_tensors(self):
        if self.is_freed:
            raise RuntimeError("Trying to backward through the graph a second time (or directly access saved tensors after they have already been freed). Saved intermediate "
                               "values of the graph are freed when you call .backward() or autograd.grad(). Specify retain_graph=True if you need to backward through the "
                               "graph a second time or if you need to access saved tensors after calling backward.")
        return ()

    def free(self):
        self.is_freed, self.to_save, self.non_differentiable = True, None, None


def apply(cls, *args):
    context = Context(args)
    with torch.no_grad():
        if cls.setup_context is _SingleLevelFunction.setup_context:
            output = cls.forward(context, *args)
        else:
            output = cls.forward(*args)
            cls.setup_context(context, args, output)
        context.free()
        check_dirty(context, output)
        if isinstance(output, tuple):
            return tuple([result(context, args, item) for item in output])
        return result(context, args, output)


def check_dirty(context, output):
    outputs = output if isinstance(output, tuple) else (output,)
    for dirty in context.dirty_tensors:
        if not any([dirty is item for item in outputs]):
            raise RuntimeError("Some elements marked as dirty during the forward method were not returned as output. The inputs that are modified inplace must all be "
                               "outputs of the Function.")


def result(context, args, value):
    """An input that is given back is another tensor, of the same memory."""
    if not isinstance(value, torch.Tensor):
        return value
    if any([value is dirty for dirty in context.dirty_tensors]):
        return value
    if any([value is arg for arg in args]):
        return value.detach() if value.requires_grad else value.view_as(value)
    return value.detach_() if value.requires_grad else value


def deepcopy(value):
    """Of an object that leaves copying to its class, object's own; what copy.py asks for is asked for here, as the program may see that."""
    if getattr(value, "__deepcopy__", None) is not None:
        return copy.deepcopy(value, {})
    for name in ("__reduce_ex__", "__reduce__", "__getstate__"):
        getattr(value, name, None)
    made = object.__new__(type(value))
    state = copy.deepcopy(object.__getattribute__(value, "__dict__"))
    getattr(made, "__setstate__", None)
    if state:
        made.__dict__.update(state)
    return made
