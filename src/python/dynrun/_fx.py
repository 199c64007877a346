"""A recorded graph as a torch.fx.GraphModule: one call of an operator (torch.ops) a node, under the modes it was recorded in."""

import builtins
import contextlib
import keyword
import linecache
import os
import operator
import re

import dynrun
import torch
import torch.fx

TORCH = os.path.join(os.path.dirname(torch.__file__), "")


def graph_module(description, inputs=None, symbols=None):
    """The module for what src/engine/fx_bridge.h describes; its nodes carry `val` and `example_value` where example inputs are given, of symbolic
    sizes where `symbols` (see _symbols.py) are."""
    return Builder(description, inputs, symbols).build()


@contextlib.contextmanager
def quiet():
    """Python's warnings about how a compiler uses torch are not the program's."""
    import warnings
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def identifier(name):
    """The nearest name that an argument or a variable may have, and that hides no builtin."""
    text = re.sub(r"\W+", "_", name).strip("_") or "value"
    if text[0].isdigit():
        return f"_{text}"
    return f"{text}_" if text == "self" or keyword.iskeyword(text) or hasattr(builtins, text) else text


class Builder:
    def __init__(self, description, inputs, symbols):
        self.values, self.nodes, self.sources = description["values"], description["nodes"], description["sources"]
        self.inputs, self.outputs, self.entry, self.code = description["inputs"], description["outputs"], description["entry"], description["code"]
        self.graph, self.made, self.source, self.symbols = torch.fx.Graph(), {}, -1, symbols
        self.stacks = {}
        self.examples = None if inputs is None else self.fake_values(inputs)
        # Modes matter to operators on what takes part in autograd, and to those that autocast knows.
        self.gradients = any(isinstance(type_, tuple) and type_[4] for _, type_ in self.values)

    def fake_values(self, inputs):
        from torch._subclasses.fake_tensor import FakeTensorMode
        mode = self.symbols.mode if self.symbols else FakeTensorMode(allow_non_fake_inputs=True)
        values = {}
        for number, (_, type_) in enumerate(self.values):
            if isinstance(type_, tuple) and not type_[5] and len(type_[2]) == len(type_[3]):
                dtype, device, sizes, strides, requires_grad, _ = type_
                with mode, torch.no_grad():
                    values[number] = torch.empty_strided(sizes, strides, dtype=dtype, device=device)
                if requires_grad and (dtype.is_floating_point or dtype.is_complex):
                    values[number].requires_grad_()
        for number, value in zip(self.inputs, self.symbols.fakes if self.symbols else inputs):
            if self.symbols or not isinstance(value, torch.Tensor):
                values[number] = value
        return values

    def build(self):
        for number in self.inputs:
            name = dynrun._part("_names").value_name(self.values[number][0], self.code)
            self.note(self.graph.placeholder(self.unique(identifier(name))), number)
        outside = Modes(self, self.entry)
        for node in self.nodes:
            self.source = node[7]
            outside.enter(node[6])
            self.add(*node[:7])
        outside.leave()
        self.source = -1
        self.graph.output(tuple(None if number is None else self.made[number] for number in self.outputs))
        module = torch.fx.GraphModule(torch.nn.Module(), self.graph)
        module.graph.lint()
        return module

    def unique(self, name):
        taken = {node.target for node in self.graph.nodes if node.op == "placeholder"}
        free, count = name, 1
        while free in taken:
            free, count = f"{name}_{count}", count + 1
        return free

    def add(self, operator_name, overload, arguments, keywords, outputs, lengths, mode):
        space, name = operator_name.split("::")
        target = getattr(getattr(getattr(torch.ops, space), name), overload)
        arguments = tuple(self.argument(argument) for argument in arguments)
        keywords = {key: self.argument(argument) for key, argument in keywords.items()}
        node = self.graph.create_node("call_function", target, arguments, keywords, name=identifier(name))
        self.trace(node)
        if self.symbols:
            self.find_sizes(node, outputs, lengths, mode)
        self.bind(node, outputs, lengths)

    def find_sizes(self, node, outputs, lengths, mode):
        """Runs the operator on tensors without contents; where that fails, nothing is told of what it gives."""
        for number in outputs:
            self.examples.pop(number, None)
        values = (lambda at: at.meta.get("val"))
        found = self.symbols.run(node.target, torch.fx.node.map_arg(node.args, values), torch.fx.node.map_arg(node.kwargs, values), mode)
        parts = [found] if len(lengths) == 1 else list(found or ())
        flat = [item for part, length in zip(parts, lengths) for item in ([part] if length < 0 else part or ())]
        for number, value in zip(outputs, flat):
            if number is not None and isinstance(value, torch.Tensor):
                self.examples[number] = value

    def argument(self, argument):
        if isinstance(argument, tuple):
            return None if argument[0] is None else self.made[argument[0]]
        if isinstance(argument, list):
            return [self.argument(item) for item in argument]
        return argument

    def bind(self, node, outputs, lengths):
        """Gives each value that the node makes a node of its own."""
        if lengths == [-1]:
            return self.note(node, outputs[0])
        at = 0
        for index, length in enumerate(lengths):
            whole = node if len(lengths) == 1 else None
            if length < 0:
                self.note_item(node, index, outputs[at])
                at += 1
                continue
            whole = whole or self.item(node, index)
            for position in range(length):
                self.note_item(whole, position, outputs[at + position])
            at += length
        return None

    def item(self, node, index):
        made = self.graph.call_function(operator.getitem, (node, index))
        self.trace(made)
        return made

    def note_item(self, node, index, number):
        if number is not None:
            self.note(self.item(node, index), number)

    def note(self, node, number):
        if number is None:
            return
        self.made[number] = node
        type_ = self.values[number][1]
        if isinstance(type_, tuple) and not self.symbols:
            from torch.fx.passes.shape_prop import TensorMetadata
            node.meta["tensor_meta"] = TensorMetadata(torch.Size(type_[2]), type_[0], type_[4], tuple(type_[3]), None, False, {})
        if self.examples is not None and number in self.examples:
            node.meta["val"] = node.meta["example_value"] = self.examples[number]

    def trace(self, node):
        if self.source >= 0:
            lines, modules = self.stack(self.source)
            shown = [line for line in lines if not line[0].startswith(TORCH)] or lines
            node.stack_trace = "".join(f'  File "{file}", line {line}, in {function}\n    {linecache.getline(file, line).strip()}\n' for file, function, line in shown)
            node.meta["nn_module_stack"] = dict(modules)

    def stack(self, source):
        """The lines that lead to an operator, and the modules whose calls they are in. Each caller is looked at once."""
        if source < 0:
            return [], {}
        if source not in self.stacks:
            file, function, line, caller, path, class_name = self.sources[source]
            lines, modules = self.stack(caller)
            if not file.startswith("<dynrun>/"):
                lines = [*lines, (file, function, line)]
            if path:
                modules = {**modules, **dynrun._part("_names").module_entry(path, class_name, self.code)}
            self.stacks[source] = lines, modules
        return self.stacks[source]


class Modes:
    """Switches gradient, inference and autocast mode where the program did. The graph is called in the mode `entry`, and ends in it."""

    def __init__(self, builder, entry):
        self.builder = builder
        self.outside, self.entry_inference, self.entry_autocast = entry
        self.grad, self.inference, self.autocast = self.outside, None, None  # the latter two: what was entered here

    def call(self, function, *arguments):
        return self.builder.graph.call_function(function, arguments)

    def enter(self, mode):
        grad, inference, autocast = mode
        self.enter_inference(inference)
        self.enter_autocast(autocast)
        if self.builder.gradients and not inference and grad != self.grad:
            self.call(torch._C._set_grad_enabled, grad)
            self.grad = grad

    def enter_inference(self, inference):
        if inference == (self.entry_inference if self.inference is None else not self.entry_inference):
            return
        if self.inference is not None:
            self.call(torch.autograd.grad_mode._exit_inference_mode, self.inference)
            self.inference = None
        else:
            self.inference = self.call(torch.autograd.grad_mode._enter_inference_mode, inference)

    def enter_autocast(self, wanted):
        if wanted == (self.autocast[0] if self.autocast else self.entry_autocast):
            return
        if self.autocast is not None:
            self.call(torch.amp.autocast_mode._exit_autocast, self.autocast[1])
            self.autocast = None
        if wanted != self.entry_autocast:
            device, dtype = wanted
            self.autocast = wanted, self.call(torch.amp.autocast_mode._enter_autocast, device, dtype, True, False)

    def leave(self):
        self.enter_autocast(self.entry_autocast)
        self.enter_inference(self.entry_inference)
        if self.grad != self.outside:
            self.call(torch._C._set_grad_enabled, self.outside)
