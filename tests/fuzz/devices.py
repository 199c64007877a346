"""Programs on another device: what makes tensors and modules in their source is given it."""

import ast
import contextlib
import os

DEVICE = os.environ.get("DYNRUN_FUZZ_DEVICE", "cpu")
CONSTRUCTORS = {"zeros", "ones", "tensor", "arange", "full", "randn", "rand", "empty", "eye", "as_tensor", "linspace", "randint", "randperm"}
NOT_MODULES = {"Parameter", "Module", "ParameterList", "ModuleList", "Sequential"}
LOST = ("the device is lost",)  # how a run ends in which a kernel has failed an assertion, such as an index out of range


def is_lost():
    """Whether the process can use the device no longer. Waits for all that runs there."""
    if DEVICE == "cpu":
        return False
    import torch  # late: who only makes programs needs none

    try:
        torch.cuda.synchronize()
        return False
    except RuntimeError:
        return True


@contextlib.contextmanager
def on_cpu():
    """For what is made before processes fork: a device is the children's to wake."""
    global DEVICE
    DEVICE, before = "cpu", DEVICE
    try:
        yield
    finally:
        DEVICE = before


class Placed(ast.NodeTransformer):
    def visit_Call(self, node):
        self.generic_visit(node)
        name = ast.unparse(node.func)
        given = any(keyword.arg in ("device", None) for keyword in node.keywords)
        if name.startswith("torch.") and name[6:] in CONSTRUCTORS and not given:
            node.keywords.append(ast.keyword("device", ast.Constant(DEVICE)))
        elif name == "torch.default_generator.manual_seed":  # the device's too
            node.func = ast.parse("torch.manual_seed", mode="eval").body
        elif name.startswith("torch.nn.") and name[9:].isidentifier() and name[9].isupper() and name[9:] not in NOT_MODULES:
            return ast.Call(ast.Attribute(node, "to", ast.Load()), [ast.Constant(DEVICE)], [])
        return node


def compiled(source, name):
    if DEVICE == "cpu":
        return compile(source, name, "exec")
    return compile(ast.fix_missing_locations(Placed().visit(ast.parse(source))), name, "exec")
