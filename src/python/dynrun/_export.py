"""dynrun.export: a call as one torch.fx.GraphModule that takes the call's arguments."""

import inspect
import operator
import re

import dynrun
import torch
from torch.fx.graph import _PyTreeCodeGen, _PyTreeInfo
from torch.utils import _pytree as pytree

PLAIN = dynrun._part("_calls").PLAIN


def export(fn, args, kwargs):
    if not callable(fn):
        raise TypeError(f"dynrun.export() takes a function or a module, not {type(fn).__name__!r}")
    fn = dynrun._part("_wrap").uncompiled(fn)
    signature, bound = signature_of(fn), None
    if signature is not None:
        bound = signature.bind(*args, **kwargs)
        args, kwargs = bound.args, bound.kwargs
    leaves, form = pytree.tree_flatten((args, kwargs))
    check_arguments(leaves)
    calls = dynrun._part("_calls").CallChecks(signature, bound, names_of(fn, args, kwargs), form, leaves)
    recording = Recording()
    lower = recording.lower
    run = dynrun._Scoped(fn, (lower, 1, True, False))
    try:
        run_first(run, args, kwargs)
        recording.check_effects()
        result = run(*args, **kwargs)  # a replay: its outputs are the graph's
    finally:
        dynrun._forget(lower)
    recording.check(leaves)
    module = recording.module
    bind_inputs(module, recording.inputs, leaves)
    structure = bind_outputs(module, recording.outputs, leaves, result)
    module.graph.set_codegen(_PyTreeCodeGen(_PyTreeInfo(names_of(fn, args, kwargs), form, structure)))
    module.graph.lint()
    module.recompile()
    module.guards = dynrun._part("_guards").summary(recording.facts["guards"])
    module.register_forward_pre_hook(calls, with_kwargs=True)
    if signature is not None:
        module.__signature__ = signature
    return module


def run_first(run, args, kwargs):
    """The call that is recorded; a break says what it prevents."""
    try:
        run(*args, **kwargs)
    except RuntimeError as error:
        text = str(error)
        if text.startswith("fullgraph=True: "):
            error.args = (text.replace("fullgraph=True: ", "dynrun.export: the call is not one graph: ", 1),)
        raise


def signature_of(fn):
    try:
        return inspect.signature(fn.forward if isinstance(fn, torch.nn.Module) else fn)
    except (TypeError, ValueError):
        return None


def check_arguments(leaves):
    for leaf in leaves:
        if not isinstance(leaf, (torch.Tensor, *PLAIN)):
            raise ValueError(f"an argument holds a {type(leaf).__name__}: a graph takes tensors, numbers, texts, and containers of these")
    tensors = [id(leaf) for leaf in leaves if isinstance(leaf, torch.Tensor)]
    if len(set(tensors)) < len(tensors):
        raise ValueError("two arguments are one tensor: the graph would be right for such calls alone; pass a clone")


class Recording:
    """The back end that keeps the graph, and what its last run gave."""

    def __init__(self):
        self.module = self.inputs = self.outputs = self.facts = None
        self.graphs = 0

    def lower(self, description, inputs):
        self.graphs += 1
        self.module, self.inputs, self.facts = dynrun._part("_fx").graph_module(description, inputs), inputs, description["facts"]
        self.names = [description["values"][number][0] for number in description["inputs"]]

        def run(*values):
            self.outputs = self.module(*values)
            return self.outputs

        return run

    def check_effects(self):
        if self.facts is not None and self.facts["effects"]:
            raise ValueError("the call does more than compute its result (it writes to outside objects or tensors, as BatchNorm does in training, or prints): a graph cannot")

    def check(self, leaves):
        if self.module is None:
            raise ValueError("no operator on tensors was recorded: the call runs none, or it is compiled by another back end already")
        if self.graphs > 1:
            raise ValueError(f"the call is {self.graphs} graphs: a loop of so many turns is cut, and so is what is not inside one function or module")
        self.check_effects()
        if self.outputs is None:
            raise ValueError("the call is another one each time: its graph was not used again")
        given = {name for name, value in zip(self.names, self.inputs) if any(value is leaf for leaf in leaves)}
        for guard in self.facts["guards"]:
            same = re.fullmatch(r"(.+) and (.+) are one object", guard)
            if same and given & set(same.groups()):
                raise ValueError(f"an argument is a tensor that the code also reads as another name ({guard}): pass a clone")


def bind_inputs(module, inputs, leaves):
    """Placeholders in the order of the arguments' leaves, checked to be such ones; what is no argument becomes an attribute."""
    graph = module.graph
    places = [node for node in graph.nodes if node.op == "placeholder"]
    first = next(iter(graph.nodes))
    with graph.inserting_before(first):
        fresh = [graph.placeholder(f"arg{index}") for index in range(len(leaves))]
        for node, leaf in zip(fresh, leaves):
            check_at_call(graph, node, leaf)
    for node, value in zip(places, inputs):
        index = next((at for at, leaf in enumerate(leaves) if leaf is value), None) if isinstance(value, torch.Tensor) else None
        if index is not None:
            stands = fresh[index]
        elif isinstance(value, torch.Tensor):
            with graph.inserting_before(node):
                stands = attribute(module, node.name, value)
        else:
            raise ValueError(f"the graph takes a number that is another one on each call ({node.name}): a graph module cannot compute it")
        stands.meta = dict(node.meta)
        node.replace_all_uses_with(stands)
        graph.erase_node(node)


def check_at_call(graph, node, leaf):
    """The graph is for tensors of these sizes, and for these numbers and texts."""
    if isinstance(leaf, torch.Tensor):
        graph.call_function(torch.ops.aten._assert_tensor_metadata.default, (node, list(leaf.shape), None, leaf.dtype))
        return
    is_nan = leaf != leaf
    is_same = graph.call_function(operator.is_ if leaf is None else operator.ne if is_nan else operator.eq, (node, node if is_nan else leaf))
    graph.call_function(torch._assert, (is_same, f"this graph was exported for {leaf!r}"))


def attribute(module, name, value):
    while hasattr(module, name):
        name += "_"
    if isinstance(value, torch.nn.Parameter):
        module.register_parameter(name, value)
    else:
        module.register_buffer(name, value)
    return module.graph.get_attr(name)


def bind_outputs(module, outputs, leaves, result):
    """The leaves of the result: the graph's outputs, the arguments and constants. Gives the result's form."""
    graph = module.graph
    output = next(node for node in graph.nodes if node.op == "output")
    places = [node for node in graph.nodes if node.op == "placeholder"]
    flat, structure = pytree.tree_flatten(result)

    def stands_for(leaf):
        if isinstance(leaf, PLAIN):
            return leaf
        if not isinstance(leaf, torch.Tensor):
            raise ValueError(f"the result holds a {type(leaf).__name__}: a graph gives tensors, numbers, texts, and containers of these")
        made = next((node for node, value in zip(output.args[0], outputs) if value is leaf), None)
        given = next((place for place, value in zip(places, leaves) if value is leaf), None)
        return made if made is not None else given if given is not None else attribute(module, "constant", leaf)

    with graph.inserting_before(output):
        output.args = ([stands_for(leaf) for leaf in flat],)
    return structure


def names_of(fn, args, kwargs):
    """Names for the positional arguments, as the function has them, then those of the keywords."""
    try:
        signature = inspect.signature(fn.forward if isinstance(fn, torch.nn.Module) else fn)
        positional = [name for name, parameter in signature.parameters.items() if parameter.kind in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD)]
    except (TypeError, ValueError):
        positional = []
    names = [positional[index] if index < len(positional) and positional[index] not in kwargs else f"argument{index}" for index in range(len(args))]
    return [*names, *kwargs]
