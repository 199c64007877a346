"""What the cases share."""

import torch


class Graphs:
    """A back end that runs the graph as it is, and keeps it."""

    def __init__(self, run=None):
        self.modules, self.inputs, self.calls = [], [], 0
        self.run = run

    def __call__(self, module, inputs):
        self.modules.append(module)
        self.inputs.append(inputs)

        def code(*values):
            self.calls += 1
            return (self.run or module.forward)(*values)

        return code

    def names(self, index=0):
        return [node.target.name() for node in self.modules[index].graph.nodes if node.op == "call_function" and hasattr(node.target, "name")]


def raises(kind, call, *words):
    """The exception of that kind, whose text holds the words."""
    try:
        call()
    except kind as error:
        missing = [word for word in words if word not in str(error)]
        assert not missing, f"{missing} not in {error}"
        return error
    raise AssertionError(f"no {kind}")


def same(got, expected):
    torch.testing.assert_close(got, expected)
