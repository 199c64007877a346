"""dynrun.export: a call as one torch.fx.GraphModule that takes the call's arguments."""

import copy

import dynrun
import torch
from torch.utils import _pytree as pytree


def export(fn, args, kwargs):
    if not callable(fn):
        raise TypeError(f"dynrun.export() takes a function or a module, not {type(fn).__name__!r}")
    recording = Recording()
    outside = dynrun._enter((recording.lower, True, True, False))
    try:
        fn(*args, **kwargs)
        result = fn(*args, **kwargs)  # a replay: its outputs are the graph's
    finally:
        dynrun._enter(outside)
    if recording.module is None:
        raise ValueError("the call runs no operator on tensors: there is nothing to export")
    if recording.facts["effects"]:
        raise ValueError("the call does more than compute its result (it writes to outside objects, or prints): a graph cannot")
    if recording.outputs is None:
        raise ValueError("the call is another one each time: its graph was not used again")
    return exported(recording, args, kwargs, result)


class Recording:
    """The back end that keeps the graph, and what its last run gave."""

    def __init__(self):
        self.module = self.inputs = self.outputs = self.facts = None

    def lower(self, description, inputs):
        self.module, self.inputs, self.facts = dynrun._part("_fx").graph_module(description, inputs), inputs, description["facts"]

        def run(*values):
            self.outputs = self.module(*values)
            return self.outputs

        return run


def exported(recording, args, kwargs, result):
    module = recording.module
    leaves, arguments = pytree.tree_flatten((args, kwargs))
    bind_inputs(module, recording.inputs, leaves)
    bind_outputs(module, recording, leaves, result)
    module.recompile()
    module.graph.lint()
    module.guards = recording.facts["guards"]
    return Exported(module, arguments)


def bind_inputs(module, inputs, leaves):
    """Placeholders in the order of the arguments' leaves; what is no argument becomes an attribute."""
    graph = module.graph
    places = [node for node in graph.nodes if node.op == "placeholder"]
    first = places[0] if places else next(iter(graph.nodes))
    with graph.inserting_before(first):
        fresh = [graph.placeholder(f"arg{index}") for index in range(len(leaves))]
    for node, value in zip(places, inputs):
        index = next((at for at, leaf in enumerate(leaves) if leaf is value), None) if isinstance(value, torch.Tensor) else None
        if index is not None:
            stands = fresh[index]
            stands.meta = dict(node.meta)
        elif isinstance(value, torch.Tensor):
            with graph.inserting_before(node):
                stands = attribute(module, node.name, value)
            stands.meta = dict(node.meta)
        else:
            raise ValueError(f"the graph takes a number that is another one on each call ({node.name}): a graph module cannot compute it")
        node.replace_all_uses_with(stands)
        graph.erase_node(node)


def attribute(module, name, value):
    while hasattr(module, name):
        name += "_"
    if isinstance(value, torch.nn.Parameter):
        module.register_parameter(name, value)
    else:
        module.register_buffer(name, value)
    return module.graph.get_attr(name)


def bind_outputs(module, recording, leaves, result):
    """The result's own structure, of the graph's outputs, the arguments and constants."""
    graph = module.graph
    output = next(node for node in graph.nodes if node.op == "output")
    places = [node for node in graph.nodes if node.op == "placeholder"]
    flat, structure = pytree.tree_flatten(result)
    nodes = []
    for leaf in flat:
        made = next((node for node, value in zip(output.args[0], recording.outputs) if value is leaf), None)
        given = next((place for place, value in zip(places, leaves) if value is leaf), None)
        if made is None and given is None and isinstance(leaf, torch.Tensor):
            with graph.inserting_before(output):
                given = attribute(module, "constant", leaf)
        nodes.append(made if made is not None else given if given is not None else leaf)
    output.args = (nodes,)
    module._result_structure = structure


class Exported(torch.fx.GraphModule):
    """A graph module that is called as the exported function is."""

    def __init__(self, module, arguments):
        super().__init__(module, module.graph, "GraphModule")
        self.guards, self._arguments, self._result = module.guards, arguments, module._result_structure

    def __call__(self, *args, **kwargs):
        leaves, arguments = pytree.tree_flatten((args, kwargs))
        if arguments != self._arguments:
            raise TypeError(f"the exported call takes arguments of the form {self._arguments}, not {arguments}")
        return pytree.tree_unflatten(super().__call__(*leaves), self._result)
