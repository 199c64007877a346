"""Calls of an exported graph: what each must have in common with the one that was exported."""

import torch
from torch.utils import _pytree as pytree


PLAIN = (int, float, bool, complex, str, type(None), torch.dtype, torch.device, torch.layout, torch.memory_format)


class CallChecks:
    """What a call of the exported module must have in common with the one that was exported: raises TypeError or ValueError before anything
    runs. Gives the arguments in the form that the graph takes."""

    def __init__(self, signature, bound, names, form, leaves):
        self.signature, self.names, self.form = signature, names, form
        self.given = set(bound.arguments) if bound else set()
        self.facts, self.grad = [fact_of(leaf) for leaf in leaves], torch.is_grad_enabled()

    def bind(self, args, kwargs):
        if self.signature is None:
            return args, kwargs
        try:
            bound = self.signature.bind(*args, **kwargs)
        except TypeError:
            named = len(self.form.child(1).children())
            if kwargs or len(args) != len(self.names) or not named:
                raise
            return args[:-named], dict(zip(self.names[-named:], args[-named:]))  # as the graph's own parameters
        self.settle_defaults(bound.arguments)
        return bound.args, bound.kwargs

    def settle_defaults(self, arguments):
        """A default is the same argument, given or left out."""
        for name, parameter in self.signature.parameters.items():
            default = parameter.default
            if default is parameter.empty or (name in arguments) == (name in self.given):
                continue
            if name in self.given:
                arguments[name] = default
            elif arguments[name] is default or (isinstance(default, PLAIN) and alike(default, arguments[name])):
                del arguments[name]
            else:
                raise ValueError(f"this graph was exported with {name} left out, not for {arguments[name]!r}: export it for such a call")

    def __call__(self, module, args, kwargs):
        args, kwargs = self.bind(args, kwargs)
        leaves, form = pytree.tree_flatten((args, kwargs))
        if form != self.form:
            raise ValueError(f"this graph was exported for arguments of the form {self.form}, not {form}: export it for these")
        for fact, leaf in zip(self.facts, leaves):
            if differs(fact, fact_of(leaf)):
                raise ValueError(f"this graph was exported for {told(fact)}, not {told(fact_of(leaf))}: export it for such a call")
        if torch.is_grad_enabled() != self.grad:
            raise ValueError(f"this graph was exported with gradients {'enabled' if self.grad else 'disabled'}: export it in the mode it is called in")
        return args, kwargs


def fact_of(leaf):
    if not isinstance(leaf, torch.Tensor):
        return type(leaf), leaf
    return torch.Tensor, leaf.dtype, str(leaf.device), tuple(leaf.shape), tuple(leaf.stride()), leaf.requires_grad


def alike(a, b):
    """Of plain values. nan is nan, and 0.0 is not -0.0."""
    return type(a) is type(b) and repr(a) == repr(b)


def differs(fact, now):
    """In what the graph does not check itself: it knows sizes, dtypes and values. (What was made for tensors that require gradients serves
    others, too.)"""
    if fact[0] is not torch.Tensor or now[0] is not torch.Tensor:
        return fact[0] is not now[0] or (fact[1] == now[1] and not alike(fact[1], now[1]))
    return fact[1] == now[1] and fact[3] == now[3] and (fact[2] != now[2] or fact[4] != now[4] or (now[5] and not fact[5]))


def told(fact):
    if fact[0] is not torch.Tensor:
        return repr(fact[1])
    _, dtype, device, shape, strides, requires_grad = fact
    return f"a tensor {dtype}{list(shape)} with strides {list(strides)} on {device}{', which requires gradients' if requires_grad else ''}"
