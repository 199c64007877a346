"""What is recorded in the place of C code: of torch.autograd.Function's, where nothing is to be differentiated; of what copy.deepcopy()
asks an object for; of functions that TorchScript compiled."""

import copy
import types
import weakref

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


# What TorchScript computes of numbers as Python does. (Its `2 ** 3` is 8.0.)
OF_NUMBERS = {"aten::" + name for name in ("size", "dim", "len", "add", "sub", "mul", "neg", "div", "floordiv", "eq", "ne", "lt", "le", "gt", "ge", "__not__", "__getitem__")}
OF_SCRIPT = {"prim::" + name for name in ("Constant", "ListConstruct", "TupleConstruct", "TupleUnpack", "ListUnpack", "If", "dtype", "device", "unchecked_cast")}
TYPES = {"Tensor": torch.Tensor, "int": int, "float": float, "bool": bool, "str": str}
means_the_same = weakref.WeakKeyDictionary()  # functions: whether they do what TorchScript makes of them


def source_of_script(scripted, args):
    """The function that torch.jit.script compiled, if a call of it with these arguments does the same; else None. Tracing keeps one that may not."""
    function = vars(scripted).get("_torchdynamo_inline")
    if not isinstance(function, types.FunctionType) or torch.jit._state._jit_caching_layer.get(function) != scripted.qualified_name:
        return None
    if function not in means_the_same:
        means_the_same[function] = is_plain(scripted.inlined_graph) and not asks_for_script(function, set())
    taken = scripted.schema.arguments
    alike = len(args) == len(taken) and all(type(arg) is TYPES.get(str(formal.type)) for arg, formal in zip(args, taken))
    return function if means_the_same[function] and alike else None


def is_plain(block):
    """Whether all that a block of a graph does is computing with tensors, and with numbers as Python does it."""
    for node in block.nodes():
        gives = {output.type().kind() for output in node.outputs()}
        if not (node.kind().startswith("aten::") and gives == {"TensorType"} or node.kind() in OF_NUMBERS or node.kind() in OF_SCRIPT) or not all(map(is_plain, node.blocks())):
            return False
    return True


def asks_for_script(function, seen):
    """Whether code asks if it runs as TorchScript: this function's, or that of one that it names."""
    seen.add(function)
    named = [function.__globals__.get(name) for name in function.__code__.co_names]
    inner = [one for one in named if isinstance(one, types.FunctionType) and one not in seen]
    return "is_scripting" in function.__code__.co_names or any(asks_for_script(one, seen) for one in inner)
