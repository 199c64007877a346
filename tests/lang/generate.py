"""Random deterministic programs: Python constructs x tensors x graph breaks x mutation. `program(seed)` gives the source."""

import random

SHAPES = ["3", "2, 3", "3, 3"]
UNARY = ["torch.sin({0})", "torch.relu({0})", "({0}).tanh()", "({0} * 2 + 1)", "(-{0})", "({0}).abs()", "torch.sigmoid({0})",
         "({0} - {0}.mean())", "torch.softmax({0}, -1)", "({0} / 3)", "{0}.clone()", "{0}.flip(-1)", "{0}[...]", "{0}.clamp(-1, 1)"]
BINARY = ["({0} + {1})", "({0} - {1})", "({0} * {1})", "torch.maximum({0}, {1})", "torch.where({0} > {1}, {0}, {1})", "({0} * 0.5 + {1})"]
INPLACE = ["{0}.add_({1})", "{0}.mul_(0.5)", "{0} += {1}", "{0}[0] = 0.25", "{0}.clamp_(-2, 2)", "{0}.copy_({1})"]
SCALAR = ["n", "2", "0.5", "len(items)", "self.count", "{0}.shape[0]", "{0}.dim()", "GLOBAL"]


class Generator:
    """Builds one method `run(self, x, y, n, items, table)` of a class, statement by statement."""

    def __init__(self, seed):
        self.random = random.Random(seed)
        self.lines = []
        self.depth = 0
        self.serial = 0
        self.helpers = []
        self.in_loop = False

    def emit(self, text):
        self.lines.append("    " * self.depth + text)

    def pick(self, values):
        return self.random.choice(values)

    def fresh(self, prefix="t"):
        self.serial += 1
        return f"{prefix}{self.serial}"

    def tensor(self, names, level=2):
        """An expression over tensors of one shape (operations keep the shape)."""
        if level == 0 or self.random.random() < 0.2:
            return self.pick(names)
        if self.random.random() < 0.15:
            return f"({self.tensor(names, level - 1)} * {self.scalar(names)})"
        if self.random.random() < 0.5:
            return self.pick(UNARY).format(self.tensor(names, level - 1))
        return self.pick(BINARY).format(self.tensor(names, level - 1), self.tensor(names, level - 1))

    def scalar(self, names):
        return self.pick(SCALAR).format(self.pick(names))

    def condition(self, names):
        return self.pick(["n > 2", "n % 2 == 0", "len(items) % 2", f"{self.pick(names)}.sum() > 0.123", f"bool(({self.pick(names)} > 0).any())",
                          "self.count % 3 == 0", "'k' in table", f"{self.pick(names)}.shape[0] > 2", f"{self.pick(names)}.max().item() > 0.5",
                          f"{self.pick(names)} is {self.pick(names)}", "isinstance(table.get('k'), int)"])

    def block(self, names, size):
        self.depth += 1
        names = list(names)
        for _ in range(size):
            self.statement(names)
        self.depth -= 1

    def statement(self, names):
        kinds = ["assign"] * 5 + ["inplace", "append", "table", "attribute", "global", "print", "if", "for", "try", "with", "helper", "comprehension",
                 "closure", "generator", "unpack", "opaque", "item", "view"]
        if self.depth > 4:
            kinds = ["assign", "inplace", "append", "attribute", "print"]
        getattr(self, "do_" + self.pick(kinds))(names)

    def do_assign(self, names):
        name = self.fresh() if self.random.random() < 0.6 else self.pick([n for n in names if n != "x"] or ["t0"])
        self.emit(f"{name} = {self.tensor(names)}")
        if name not in names:
            names.append(name)

    def do_inplace(self, names):
        target = self.pick(names)
        self.emit(f"{target} = {target}.clone()" if self.random.random() < 0.3 else "pass")
        self.emit(self.pick(INPLACE).format(target, self.tensor(names, 1)))

    def do_view(self, names):
        name = self.fresh()
        self.emit(f"{name} = {self.pick(names)}.view_as({self.pick(names)})[...]")
        if self.random.random() < 0.5:
            self.emit(f"{name}.mul_(1.25)")
        names.append(name)

    def do_append(self, names):
        self.emit(self.pick([f"items.append({self.tensor(names, 1)})", "items.append(n)", "items and items.pop()", f"items.insert(0, {self.scalar(names)})"]))

    def do_table(self, names):
        self.emit(self.pick([f"table['k'] = {self.scalar(names)}", f"table[n] = {self.tensor(names, 1)}", "table.pop('k', None)",
                             "table['c'] = table.get('c', 0) + 1"]))

    def do_attribute(self, names):
        self.emit(self.pick(["self.count += 1", f"self.last = {self.pick(names)}", f"self.total = self.total + {self.tensor(names, 1)}.sum().detach()",
                             "self.names.append(self.count)", f"self.scale = {self.scalar(names)}"]))

    def do_global(self, names):
        self.emit("global GLOBAL") if False else self.emit(self.pick(["bump()", "STATE['g'] = STATE.get('g', 0) + 1", f"STATE['t'] = {self.pick(names)}"]))

    def do_print(self, names):
        self.emit(self.pick([f"print('p{self.fresh('')}', n, len(items))", f"show({self.pick(names)})", f"print(tuple({self.pick(names)}.shape))",
                             "print(f'{self.count} {n:>3}')"]))

    def do_if(self, names):
        self.emit(f"if {self.condition(names)}:")
        self.block(names, self.random.randint(1, 3))
        if self.random.random() < 0.6:
            self.emit("else:")
            self.block(names, self.random.randint(1, 2))

    def do_for(self, names):
        index = self.fresh("i")
        target = self.pick([n for n in names if n != "x"] or ["t0"])
        self.emit(self.pick([f"for {index} in range({self.random.randint(1, 4)}):", f"for {index} in range(n % 4):",
                             f"for {index}, row in enumerate({self.pick(names)}.unbind(0)):", f"for {index} in list(table):"]))
        self.depth += 1
        self.emit(f"{target} = {target} * 0.9 + {self.pick(names)}")
        if self.random.random() < 0.4:
            self.emit(f"if {self.condition(names)}:")
            self.emit("    " + self.pick(["break", "continue"]))
        self.depth -= 1
        self.block(names, self.random.randint(1, 2))

    def do_try(self, names):
        self.emit("try:")
        self.block(names, self.random.randint(1, 2))
        self.depth += 1
        self.emit(self.pick([f"if {self.condition(names)}: raise ValueError(n)", "table['missing']", "pass", f"{self.pick(names)} @ torch.ones(7, 2)"]))
        self.depth -= 1
        self.emit("except (ValueError, KeyError, RuntimeError) as error:")
        self.depth += 1
        self.emit("print(type(error).__name__)")
        self.depth -= 1
        self.block(names, 1)
        if self.random.random() < 0.5:
            self.emit("finally:")
            self.block(names, 1)

    def do_with(self, names):
        self.emit(self.pick(["with torch.no_grad():", "with Scope(items):", "with Scope(items), torch.enable_grad():"]))
        self.block(names, self.random.randint(1, 3))

    def do_helper(self, names):
        name = self.fresh("helper")
        saved, self.lines, depth, self.depth = self.lines, [], self.depth, 0
        self.emit(f"def {name}(a, b=2, *rest, k=1):")
        self.depth = 1
        if self.random.random() < 0.4:
            self.emit("if k > 1: return a * k")
        self.emit(f"c = {self.pick(UNARY).format('a')} * b + k")
        self.emit("return " + self.pick(["c", "c + sum(rest)", "c - a"]))
        self.helpers += self.lines + [""]
        self.lines, self.depth = saved, depth
        result = self.fresh()
        call = self.pick([f"{name}({self.pick(names)})", f"{name}({self.pick(names)}, n)", f"{name}({self.pick(names)}, 1, 2, *[3], k=n)",
                          f"{name}(**{{'a': {self.pick(names)}, 'k': 2}})"])
        self.emit(f"{result} = {call}")
        names.append(result)

    def do_comprehension(self, names):
        result = self.fresh()
        self.emit(f"{result} = " + self.pick([f"sum([{self.pick(names)} * j for j in range(1, 4)])", f"sum({self.pick(names)} + j for j in range(2))",
                  f"torch.stack([{self.pick(names)}, {self.pick(names)}]).sum(0)", f"{{j: {self.pick(names)} for j in 'ab'}}['b']"]))
        names.append(result)

    def do_closure(self, names):
        name, result = self.fresh("f"), self.fresh()
        self.emit(f"{name} = lambda v, w={self.scalar(names)}: {self.pick(UNARY).format('v')} + w * {self.pick(names)}")
        self.emit(f"{result} = {name}({self.pick(names)})")
        names.append(result)

    def do_generator(self, names):
        result = self.fresh()
        self.emit(f"{result} = {self.pick(names)}")
        self.emit(f"for part in parts({self.pick(names)}, n % 3 + 1):")
        self.emit(f"    {result} = {result} + part")
        names.append(result)

    def do_unpack(self, names):
        a, b = self.fresh(), self.fresh()
        self.emit(f"{a}, ({b}, *_) = {self.pick(names)}, [{self.tensor(names, 1)}, n, {self.pick(names)}]")
        names += [a, b]

    def do_opaque(self, names):
        result = self.fresh()
        self.emit(f"{result} = " + self.pick([f"torch.from_numpy({self.pick(names)}.detach().numpy().copy())", f"copy.deepcopy({self.pick(names)}.detach())",
                  f"list(map(lambda v: v * 2, [{self.pick(names)}]))[0]", f"sorted([{self.pick(names)}], key=id)[0]"]))
        names.append(result)

    def do_item(self, names):
        self.emit(self.pick([f"self.value = round({self.pick(names)}.sum().item(), 1) > 0.123", f"n = n + int({self.pick(names)}.sum().item() > 0.123)",
                             f"print(int({self.pick(names)}.argmax()) >= 0)"]))

    def source(self):
        self.depth = 2
        names = ["x", "y", "t0"]
        for _ in range(self.random.randint(5, 14)):
            self.statement(names)
        kept = ", ".join(dict.fromkeys(self.pick([n for n in names if n in ("x", "y", "t0")]) for _ in range(3)))
        shape = self.pick(SHAPES)
        grad = self.pick(["", "", "x.requires_grad_()"])
        return PROGRAM.format(helpers="\n".join(self.helpers), body="\n".join(self.lines), kept=kept, shape=shape, grad=grad or "pass",
                              mode=self.pick(["torch.no_grad()", "contextlib.nullcontext()"]), every=self.random.randint(2, 4))


PROGRAM = '''import contextlib
import copy
import torch
from support import seq, show

GLOBAL = 2
STATE = {{}}


def bump():
    global GLOBAL
    GLOBAL = GLOBAL % 3 + 1


class Scope:
    def __init__(self, items):
        self.items = items

    def __enter__(self):
        self.items.append(-1)

    def __exit__(self, *info):
        self.items.append(len(info))


def parts(x, count):
    for index in range(count):
        yield x * index


{helpers}
class Model:
    def __init__(self):
        self.count, self.names, self.total, self.last, self.scale, self.value = 0, [], torch.zeros(()), None, 1, None

    def run(self, x, y, n, items, table):
        t0 = x + y
{body}
        return {kept}, n


model, kept_items, kept_table = Model(), [], {{}}
for step in range(9):
    x, y = seq({shape}, start=step % {every}), seq({shape}, start=3 + step % 2)
    {grad}
    with {mode}:
        try:
            show(model.run(x, y, step % 5, kept_items if step % 3 else [], kept_table if step % 2 else {{}}))
        except (RuntimeError, UnboundLocalError, TypeError) as error:
            print(type(error).__name__, str(error).splitlines()[0])
    show(x, y, len(kept_items), sorted(map(str, kept_table)), model.count, model.names, model.total, model.value, GLOBAL, sorted(STATE))
'''


def program(seed):
    """The source of the program with this seed."""
    return Generator(seed).source()
