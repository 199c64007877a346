"""What is recorded in the place of torch.autograd.Function's own C code, where nothing is to be differentiated."""

import torch
from torch.autograd.function import FunctionCtx, _SingleLevelFunction


class Context(FunctionCtx):
    """What forward() and setup_context() are given: nothing that they save is asked for."""

    saved_tensors = dirty_tensors = ()

    def __init__(self, args):
        self.needs_input_grad = tuple([isinstance(arg, torch.Tensor) and arg.requires_grad for arg in args])


def apply(cls, *args):
    context = Context(args)
    with torch.no_grad():
        if cls.setup_context is _SingleLevelFunction.setup_context:
            output = cls.forward(context, *args)
        else:
            output = cls.forward(*args)
            cls.setup_context(context, args, output)
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
