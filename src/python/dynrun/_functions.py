"""What is recorded in the place of C code: of torch.autograd.Function's, where nothing is to be differentiated, and of what copy.deepcopy()
asks an object for."""

import copy
import weakref

import torch
from torch.autograd.function import FunctionCtx, _SingleLevelFunction


class Context(FunctionCtx):
    """What forward() and setup_context() are given: nothing that they save is asked for."""

    __slots__ = ("needs_input_grad", "to_save", "non_differentiable", "materialize_grads", "saved_for_forward", "_saves")
    dirty_tensors = None

    def __init__(self, args):
        self.needs_input_grad = tuple([isinstance(arg, torch.Tensor) and arg.requires_grad for arg in args])
        self._saves = True

    @property
    def saved_tensors(self):
        if self._saves:
            return ()
        raise RuntimeError("Trying to backward through the graph a second time (or directly access saved tensors after they have already been freed). Saved intermediate "
                           "values of the graph are freed when you call .backward() or autograd.grad(). Specify retain_graph=True if you need to backward through the "
                           "graph a second time or if you need to access saved tensors after calling backward.")


contexts = weakref.WeakValueDictionary()  # by the address of the Function, which each keeps


def context_of(cls):
    """The class of what its functions are given, with the name that torch gives it."""
    made = contexts.get(id(cls))
    if made is None:
        own = cls._backward_cls
        made = contexts[id(cls)] = type(own.__name__, (Context,), {"__slots__": (), "__module__": own.__module__, "_forward_cls": cls})
    return made


def apply(kind, cls, *args):
    """What cls.apply(*args) does; `kind`: context_of(cls)."""
    context = kind(args)
    with torch.no_grad():
        if cls.setup_context is _SingleLevelFunction.setup_context:
            output = cls.forward(context, *args)
        else:
            output = cls.forward(*args)
            cls.setup_context(context, args, output)
        context.to_save = context.non_differentiable = None
        context._saves = False
        dirty = context.dirty_tensors or ()
        check_dirty(dirty, output)
        if isinstance(output, tuple):
            return tuple([result(args, dirty, item) for item in output])
        return result(args, dirty, output)


def check_dirty(dirty, output):
    outputs = output if isinstance(output, tuple) else (output,)
    if not all([any([tensor is item for item in outputs]) for tensor in dirty]):
        raise RuntimeError("Some elements marked as dirty during the forward method were not returned as output. The inputs that are modified inplace must all be "
                           "outputs of the Function.")


def result(args, dirty, value):
    """An input that is given back is another tensor, of the same memory."""
    if not isinstance(value, torch.Tensor):
        return value
    if value.requires_grad:
        if any([value is arg for arg in args]):
            return value.detach()
        return value if value._is_view() else value.detach_()
    given = any([value is arg for arg in args]) and not any([value is tensor for tensor in dirty])
    return value.view_as(value) if given else value


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
