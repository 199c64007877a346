"""Random deterministic programs: Python constructs x tensors x graph breaks x mutation. `program(seed)` gives the source."""

import random
import re
import warnings

import devices
from expressions import BACKWARD, BOUNDED, CAUGHT, EXPRESSIONS, LEAVES, LOOPS, RAISES, SCOPES, SIMPLE

PLACE = re.compile(r"\{(\w+)\}")


def split(template):
    """A template as a list of texts and places, in turns: fast to fill."""
    template = re.sub(r"\}\}(?!\})", "\1", template.replace("{{", "\0"))
    return [part.replace("\0", "{").replace("\1", "}") for part in PLACE.split(template)]


TABLE = {kind: [split(text) for text in texts] for kind, texts in EXPRESSIONS.items()}
# Expressions of few parts, for where little room is left.
SHORT = {kind: [text for text in texts if len(text) <= 3] for kind, texts in TABLE.items()}
STATEMENTS, BACKWARDS, RAISING, LOOPING, MANAGERS = ([split(text) for text in texts] for texts in (SIMPLE, BACKWARD, RAISES, LOOPS, SCOPES))
TARGETS = {"t": "T", "l": "L", "m1": "N", "d": "D", "k": "M"}
SHAPES = ["(2, 3)", "(3, 3)", "(1, 3)", "(4, 2)", "(3, 1)", "(5, 3)"]


class Function:
    """Writes the body of one function, statement by statement; `names` are the variables known to be set, by kind."""

    def __init__(self, owner, names, depth, inside=""):
        self.owner, self.random, self.names, self.depth = owner, owner.random, names, depth
        self.lines, self.loops, self.inside = [], 0, inside
        self.globals_used = self.made = 0

    def emit(self, text, deeper=0):
        self.lines.append("    " * (self.depth + deeper) + text)

    def name(self, kind):
        known = self.names.get(kind)
        return self.random.choice(known) if known and self.random.random() < 0.85 else self.random.choice(LEAVES[kind])

    def fresh(self, kind):
        self.made += 1
        return f"{kind.lower()}{self.made}{self.inside}"

    def fill(self, parts, level):
        out = list(parts)
        for index in range(1, len(out), 2):
            place = out[index]
            if place == "C":
                out[index] = str(self.random.randint(1, 4))
            elif place in TARGETS:
                known = self.names.get(TARGETS[place]) or LEAVES[TARGETS[place]]
                out[index] = self.target if self.target else self.random.choice(known)
                self.target = out[index]
            elif place in "ivs":
                out[index] = self.bind[place]
            else:
                out[index] = self.expression(place, level - 1)
        return "".join(out)

    def expression(self, kind, level=2):
        draw = self.random.random()
        if level <= 0 or draw < 0.25:
            return self.name(kind)
        table = SHORT[kind] if level == 1 or draw < 0.4 else TABLE[kind]
        return self.fill(self.random.choice(table), level)

    def bounded(self, kind, level=3):
        return BOUNDED.get(kind, "{}").format(self.expression(kind, level))

    def simple(self, parts, level=2):
        self.target = None
        return self.fill(parts, level)

    def block(self, size, deeper=1):
        self.depth += deeper
        saved = {kind: list(names) for kind, names in self.names.items()}
        for _ in range(size):
            self.statement()
        self.depth -= deeper
        # What a block assigned may be unset after it: one time in four it is used all the same.
        if self.random.random() < 0.75:
            self.names = saved

    KINDS = (["assign"] * 10 + ["simple"] * 12 + ["if"] * 3 + ["loop"] * 3 + ["try"] * 2 + ["with_"] * 2
             + ["augment", "unpack", "while_", "match", "nested", "closure", "generator", "raise_", "return_", "backward", "comprehension", "delete", "walrus", "alias", "call", "view", "late_default", "class_"])
    FLAT = ["assign"] * 10 + ["simple"] * 12 + ["augment", "unpack", "return_", "comprehension", "call", "view", "alias", "raise_"]

    def statement(self):
        kind = self.random.choice(self.FLAT if self.depth > 5 or self.owner.room <= 0 else self.KINDS)
        self.owner.room -= 1
        getattr(self, "do_" + kind)()

    def learn(self, kind, name):
        known = self.names.setdefault(kind, [])
        if name not in known:
            known.append(name)

    def do_assign(self):
        kind = self.random.choice("TTTTTTTIIFBSLLNDM")
        known = self.names.get(kind)
        name = self.random.choice(known) if known and self.random.random() < 0.4 else self.fresh(kind)
        self.emit(f"{name} = {self.bounded(kind)}")
        self.learn(kind, name)

    def do_simple(self):
        self.emit(self.simple(self.random.choice(STATEMENTS)))

    def do_backward(self):
        self.emit(self.simple(self.random.choice(BACKWARDS)))

    def do_augment(self):
        kind = self.random.choice("TTIFS")
        name = self.name(kind)
        if not name.isidentifier() or name in ("True", "False"):
            return self.do_assign()
        operator = {"T": ["+=", "*=", "-=", "/="], "I": ["+=", "^=", "//="], "F": ["+=", "*="], "S": ["+="]}[kind]
        self.emit(f"{name} {self.random.choice(operator)} {self.expression(kind)}")
        if kind != "T":
            self.emit(f"{name} = {BOUNDED[kind].format(name)}")
        return None

    def do_alias(self):
        kind = self.random.choice("TTTLDN")
        name, other = self.fresh(kind), self.name(kind)
        self.emit(self.random.choice([f"{name} = {other}", f"{name} = kept_{name} = {other}", f"{name}, keep_{name} = {other}, {other}"]))
        self.learn(kind, name)

    def do_view(self):
        name, base = self.fresh("T"), self.name("T")
        self.emit(f"{name} = {base}" + self.random.choice([".view(-1)", "[0]", ".t()", ".unsqueeze(0)", "[...]", ".diagonal()", "[:, 0]", "[1:]", ".reshape(-1)", ".unbind(0)[0]", ".expand(2, -1, -1)", ".chunk(2)[0]", ".detach()", ".as_strided((2,), (1,))", ".permute(1, 0)", ".narrow(0, 0, 1)"]))
        self.emit(f"{name}" + self.random.choice([".mul_(1.25)", ".add_(0.5)", " += 1", "[0] = 0.125", ".zero_()", ".copy_(y)", ".mul_(y)", ".sin_()"]))
        if self.random.random() < 0.3:
            self.learn("T", name)

    def do_unpack(self):
        a, b, c = self.fresh("T"), self.fresh("T"), self.fresh("I")
        left, right, number = self.expression("T"), self.expression("T"), self.bounded("I")
        self.emit(self.random.choice([f"{a}, {b}, {c} = {left}, {right}, {number}", f"{a}, ({b}, *_), {c} = {left}, [{right}, n, 3], {number}", f"*_, {a}, {b}, {c} = [n, {left}, {right}, {number}]", f"{a}, {b} = {b}, {a} = {left}, {right}; {c} = {number}", f"({a}, {b}), {c} = pair({left}, {right}), {number}",
                                      f"{a} = {left}; {b} = {right}; {c} = {number}; {a}, {b} = {b}, {a}", f"{a}, {b}, {c} = Record3({left}, {right}, {number})"]))
        self.learn("T", a), self.learn("T", b), self.learn("I", c)

    def do_if(self):
        self.emit(f"if {self.expression('B', 3)}:")
        self.block(self.random.randint(1, 3))
        if self.random.random() < 0.25:
            self.emit(f"elif {self.expression('B')}:")
            self.block(self.random.randint(1, 2))
        if self.random.random() < 0.5:
            self.emit("else:")
            self.block(self.random.randint(1, 2))

    def jump(self):
        if self.random.random() < 0.35:
            self.emit(f"if {self.expression('B')}: {self.random.choice(['break', 'continue', 'continue'])}")

    def do_loop(self):
        if self.loops > 1:
            return self.do_simple()
        self.bind = {"i": self.fresh("i"), "v": self.fresh("t"), "s": self.fresh("s")}
        parts = self.random.choice(LOOPING)
        self.emit(self.simple(parts, 2))
        for place, kind in (("i", "I"), ("v", "T"), ("s", "S")):
            if place in parts[1::2]:
                self.learn(kind, self.bind[place])
        return self.body(1)

    def body(self, deeper):
        self.loops += 1
        self.depth += deeper
        if self.random.random() < 0.5:
            self.jump()
        self.block(self.random.randint(1, 3), 0)
        if self.random.random() < 0.3:
            self.jump()
        self.depth -= deeper
        self.loops -= 1
        if self.random.random() < 0.15:
            self.emit("else:")
            self.block(1)

    def do_while_(self):
        if self.loops > 1:
            return self.do_simple()
        guard, tensor = self.fresh("i"), self.name("T")
        self.emit(f"{guard} = 0")
        self.emit(self.random.choice([f"while {guard} < {self.random.randint(1, 4)}:", f"while {guard} < n:", f"while {tensor}.abs().sum() > 0.311 and {guard} < 4:", f"while (({guard} < 3) and {self.expression('B')}):", f"while True and {guard} < 5:"]))
        self.emit(f"{guard} += 1", 1)
        if self.random.random() < 0.5 and tensor not in ("x", "y"):
            self.emit(f"{tensor} = {tensor} * 0.5", 1)
        self.learn("I", guard)
        return self.body(1)

    def do_try(self):
        self.emit("try:")
        self.block(self.random.randint(1, 2))
        self.depth += 1
        if self.random.random() < 0.7:
            condition = f"if {self.expression('B')}: " if self.random.random() < 0.5 else ""
            self.emit(condition + self.simple(self.random.choice(RAISING)))
        if self.random.random() < 0.1 and not self.loops:
            self.emit(f"return {self.bounded('T')}")
        self.depth -= 1
        form = self.random.random()
        if form < 0.85:
            caught = self.random.choice(CAUGHT)
            group = self.random.random() < 0.06
            named = self.random.random() < 0.6
            self.emit(f"except{'*' if group else ''} {caught}{' as error' if named else ''}:")
            if named:
                self.emit(self.random.choice(["print(type(error).__name__, len(error.args))", "fail(error)", "self.last_error = str(error)[:20]", "error.add_note('n')", "print(error.__traceback__.tb_lineno)", "pass"]), 1)
            self.block(1)
            if self.random.random() < 0.2:
                if group:
                    self.emit("pass", 1)
                else:
                    self.emit(self.random.choice(["raise", "raise Custom(n) from None", "raise ValueError('again')", "print(sys.exc_info()[0].__name__)"]), 1)
            if self.random.random() < 0.2:
                self.emit("else:")
                self.block(1)
        if form > 0.6:
            self.emit("finally:")
            self.block(1)

    def do_with_(self):
        self.emit(f"with {self.simple(self.random.choice(MANAGERS))}:")
        self.block(self.random.randint(1, 3))

    def do_match(self):
        subject = self.random.choice([self.name("I"), f"({self.name('I')}, {self.name('S')})", self.name("N"), self.name("M"), "Point(n, 1)", "self.kind", self.name("S"), "box"])
        self.emit(f"match {subject}:")
        self.depth += 1
        cases = ["case 1 | 2:", "case [1, *_]:", "case {'a': int()}:", "case Point(left=1, right=r):", "case (0, 'a'):", "case Color.RED:", "case 'a' | 'b':", "case int() as number if number > 2:", "case []:", "case str():", "case [first, second]:", "case Box(size=2):"]
        for case in self.random.sample(cases, 3):
            self.emit(case)
            self.block(1)
        self.emit("case _:")
        self.block(1)
        self.depth -= 1

    def inner(self, header, extra, size, last):
        """A function defined here; its body does not jump out of a loop of ours."""
        self.emit(header)
        inner = Function(self.owner, {kind: list(names) for kind, names in self.names.items()}, self.depth + 1, self.inside + "_")
        for kind, name in extra:
            inner.learn(kind, name)
        inner.nested = True
        # An inner function reads our variables, and assigns only its own.
        for _ in range(size):
            kind = inner.random.choice("TTTI")
            own = inner.fresh(kind)
            inner.emit(f"{own} = {inner.bounded(kind, 2)}")
            inner.learn(kind, own)
            if inner.random.random() < 0.3:
                inner.do_simple() if not self.inside else None
        inner.emit(last(inner))
        self.lines += inner.lines

    def do_nested(self):
        name, result = self.fresh("f"), self.fresh("T")
        if self.random.random() < 0.3:
            self.emit(self.random.choice(["@twice", "@functools.wraps(scaled)", "@torch.no_grad()", "@torch.enable_grad()"]))
        self.inner(f"def {name}(a, b={self.expression('I')}, *rest, k=1, **more):", [("T", "a"), ("I", "b"), ("I", "k")], self.random.randint(1, 2), lambda f: f"return {f.bounded('T')}")
        for _ in range(self.random.randint(1, 2)):
            self.emit(f"{result} = {name}({self.expression('T')}" + self.random.choice([")", ", n)", ", 1, 2, k=n)", ", *[1, 2])", ", **{'b': 2})", ", k=2, z=3)"]))
        self.learn("T", result)

    def do_closure(self):
        cell, name = self.fresh("I"), self.fresh("f")
        kept = self.fresh("T")
        self.emit(f"{cell}, {kept} = {self.bounded('I')}, {self.expression('T')}")
        self.emit(f"def {name}(v, step={self.random.randint(1, 3)}):")
        self.emit(f"nonlocal {cell}, {kept}" if self.random.random() < 0.5 else f"nonlocal {cell}", 1)
        if "nonlocal" in self.lines[-1] and kept in self.lines[-1]:
            self.emit(f"{kept} = v * 0.5 + {kept}", 1)
        self.emit(f"{cell} = ({cell} + step) % 5", 1)
        self.emit(f"return v * {cell} + {kept}", 1)
        self.learn("I", cell), self.learn("T", kept)
        result = self.fresh("T")
        if self.random.random() < 0.4:
            self.statement()
        self.emit(f"{result} = {name}({self.expression('T')})" + self.random.choice(["", f" + {name}({self.name('T')}, step=2)"]))
        self.learn("T", result)
        if self.random.random() < 0.2:
            self.emit(f"self.callback = {name}")

    def do_generator(self):
        name, result = self.fresh("g"), self.fresh("T")
        self.emit(f"def {name}(v, count):")
        self.emit("for q in range(count):", 1)
        self.emit(self.random.choice(["got = yield v * q", "yield v * q", "yield from parts(v, 2)", "if q == 1: return\n" + "    " * (self.depth + 2) + "yield v", "try:\n" + "    " * (self.depth + 3) + "yield v\n" + "    " * (self.depth + 2) + "finally:\n" + "    " * (self.depth + 3) + "print('closed', q)"]), 2)
        self.emit(f"{result} = {self.expression('T')}")
        form = self.random.randint(0, 3)
        if form == 0:
            self.emit(f"for part in {name}({self.expression('T')}, n % 4):")
            self.emit(f"{result} = {result} + part", 1)
            if self.random.random() < 0.5:
                self.emit(f"if {self.expression('B')}: break", 1)
        elif form == 1:
            self.emit(f"{result} = sum({name}({self.expression('T')}, 3), {result})")
        elif form == 2:
            self.emit(f"self.stream = {name}({self.expression('T')}, 9)")
        else:
            self.emit(f"it = {name}({self.expression('T')}, 3); {result} = next(it) + {result}; it.close()")
        self.learn("T", result)

    def do_raise_(self):
        self.emit(f"if {self.expression('I')} == {self.random.randint(3, 6)}: {self.simple(self.random.choice(RAISING))}")

    def do_return_(self):
        if self.random.random() < 0.5:
            self.emit(f"if {self.expression('B')}: return {self.bounded(self.random.choice('TTTIL'))}")
        else:
            self.do_simple()

    def do_comprehension(self):
        kind = self.random.choice("LNDMT")
        name = self.fresh(kind)
        source, tensor = self.expression("L"), self.expression("T")
        text = {"L": [f"[v * {tensor} for v in {source} if v.numel() > 1][:4]", f"[q for v in {source} for q in (v, v + 1)][:4]"],
                "N": [f"[i * n for i in range(4) if i != {self.expression('I')}]", f"sorted({{len(str(i)) + n for i in {self.expression('N')}}})"],
                "D": [f"{{str(i): v + i for i, v in enumerate({source}[:3])}}"], "M": [f"{{k: i for i, k in enumerate({self.expression('S')})}}"],
                "T": [f"sum([{tensor} * j for j in range(1, 4)])", f"sum({tensor} + j for j in range(2))", f"torch.stack([v for v in [{tensor}, {tensor}]]).sum(0)", f"max((v for v in [{tensor}, {self.name('T')}]), key=lambda v: v.mean().item())"]}[kind]
        self.emit(f"{name} = {self.random.choice(text)}")
        self.learn(kind, name)

    def do_delete(self):
        name = self.fresh("T")
        self.emit(f"{name} = {self.expression('T')}; del {name}")

    def do_walrus(self):
        name = self.fresh("T")
        self.emit(f"if ({name} := {self.expression('T')}).mean() > 0.0321:")
        self.learn("T", name)
        self.block(1)

    def do_call(self):
        if not self.owner.helpers:
            return self.do_assign()
        name, result = self.random.choice(self.owner.helpers), self.fresh("T")
        if self.inside and name == self.inside:
            return self.do_assign()
        self.emit(f"{result} = {name}(self, {self.expression('T')}, {self.expression('T')}" + self.random.choice([")", f", {self.bounded('I')})", f", n={self.bounded('I')})", f", *[{self.bounded('I')}])"]))
        self.learn("T", result)
        return None

    def do_late_default(self):
        name, result = self.fresh("f"), self.fresh("T")
        self.emit(f"{name} = [lambda v, k=k: v * k + {self.name('T')} for k in range(3)]")
        self.emit(f"{result} = {name}[{self.expression('I')} % 3]({self.name('T')})")
        self.learn("T", result)

    def do_class_(self):
        name, result = self.fresh("K"), self.fresh("T")
        self.emit(f"class {name}{self.random.choice(['', '(Box)', '(Child)'])}:")
        self.emit(f"level = {self.bounded('I')}", 1)
        self.emit("def __init__(self, value): self.value = value * self.level", 1)
        self.emit(f"def __call__(self, v): return v + self.value * {self.random.choice(['self.level', 'n', '2'])}", 1)
        self.emit(f"{result} = {name}({self.expression('T')})({self.expression('T')})")
        self.learn("T", result)

    target, bind, nested = None, {"i": "i0", "v": "t0", "s": "s0"}, False


class Program:
    def __init__(self, seed):
        self.random = random.Random(seed)
        self.helpers = []
        self.room = self.random.randint(6, 34)  # statements, of all functions

    def function(self, header, names, size, returned):
        function = Function(self, names, 1)
        for _ in range(size):
            function.statement()
        function.emit(returned(function))
        lines = [header]
        if any("COUNT =" in line for line in function.lines):
            lines.append("    global COUNT")
        return "\n".join(lines + function.lines) + "\n"

    def source(self):
        functions = []
        for index in range(self.random.choice([0, 0, 1, 1, 2])):
            functions.append(self.function(f"def helper{index}(self, x, y, n=2):", {"T": ["x", "y"], "I": ["n"], "L": ["self.items"], "N": ["LIST"], "D": ["self.table"], "M": ["STATE"], "B": ["self.flag"]},
                                           self.random.randint(1, 5), lambda f: f"return {f.bounded('T')}"))
            self.helpers.append(f"helper{index}")
            functions[-1] = functions[-1].replace("items", "self.items").replace("self.self.", "self.").replace("box.self.items", "box.items").replace(".self.items()", ".items()")
        names = {"T": ["x", "y", "self.last"], "I": ["n"], "F": ["rate"], "B": ["flag"], "L": ["items"], "N": ["numbers"], "D": ["table"], "M": ["counts"]}
        if self.random.random() < 0.5:
            names["T"].remove("self.last")
        if self.random.random() < 0.15:
            names["T"] += ["left.value", "right.value"]
            names["I"] += ["left.n", "right.n", "space.level"]
        body = self.function("def run(self, x, y, n, rate, flag, items, numbers, table, counts):", names, self.random.randint(3, 12),
                             lambda f: "return " + self.random.choice([f"{f.name('T')}, {f.name('T')}, {f.name('I')}", f"{f.name('T')}", f"{{'a': {f.name('T')}, 'l': {f.name('L')}, 'n': {f.name('I')}}}", f"[{f.name('T')}, {f.name('L')}, {f.name('M')}, {f.name('S')}]",
                                                                       f"Point({f.name('T')}, {f.name('N')})", f"Record({f.expression('T')}, {f.name('I')})", f"x, {f.expression('T')}, {f.expression('T')}", f"{f.expression('F')}, {f.expression('I')}, {f.expression('T')}"]))
        return HEAD + "\n\n" + "\n\n".join(functions + [body]) + "\n" + self.driver()

    def driver(self):
        pick = self.random.choice
        every, shapes = self.random.randint(1, 3), [pick(SHAPES[:2])] + [pick(SHAPES) for _ in range(pick([0, 0, 1, 2]))]
        lines = [f"for step in range({pick([6, 8, 10])}):",
                 f"    torch.default_generator.manual_seed(step % {every}); random.seed(step % 2)",
                 f"    shape = [{', '.join(shapes)}][step // {pick([1, 3])} % {len(shapes)}]",
                 f"    x, y = seq(*shape, start=step % {every}), seq(*shape, start=3 + step % {pick([1, 2])})"]
        lines += [pick([""] * 8 + ["    y = x", "    y = x.view(shape)", "    x = x.t().contiguous().t()", "    if step % 3 == 2: y = x", "    if step == 5: x, y = x.double(), y.double()", "    if step % 4 == 3: x, y = (x * 4).long(), y", "    y = y[:1]", "    x = x.to(torch.bfloat16)", "    x = torch.nn.Parameter(x)", "    if step % 2: x = torch.nn.Parameter(x)", "    base = torch.stack([x, y]); x, y = base[0], base[1]", "    y = y[0]"])]
        lines += [pick(["", "", "", "    x.requires_grad_()", "    if step % 2: x.requires_grad_()", "    x.requires_grad_(); y.requires_grad_()"])]
        lines += [pick([""] * 6 + ["    if step == 4: right.__dict__ = left.__dict__", "    right = left if step % 3 == 1 else PEERS[1]", "    if step % 4 == 2: right.__dict__ = dict(vars(right))", "    if step == 3: PEERS[1] = PEERS[0]",
                                   "    right.__dict__ = left.__dict__", "    if step == 5: left.seen = right.seen", "    left, right = right, left", "    if step == 4: right = left", "    right.n, left.n = step % 3, step % 2", "    space.level = step % 3"])]
        mode = pick(["torch.no_grad()", "torch.no_grad()", "contextlib.nullcontext()", "contextlib.nullcontext()", "torch.no_grad() if step % 3 == 2 else contextlib.nullcontext()", "torch.inference_mode()"])
        arguments = [pick(["step % 5", "2", "3", "step", "1 + step % 2", "step // 3"]), pick(["0.5", "step / 4", "0.25 * (step % 2)"]), pick(["True", "step % 2 == 0", "step > 3"]), pick(["[x, y]", "items", "items if step % 3 else []", "[x * 2]"]),
                     pick(["[1, 2]", "numbers", "[step, 2]", "list(range(step % 4))"]), pick(["{}", "table", "{'a': x, 'b': y}"]), pick(["{}", "counts", "{'a': step % 3, 'b': 1}", "{'a': 1}"])]
        lines += ["    try:", f"        with {mode}:", f"            result = run(model, x, y, {', '.join(arguments)})", "        show(step, result, x, y, items, numbers, table, counts)", "    except Exception as error:", "        fail(error)",
                  "        show(x, y, items, numbers, table, counts)", "    if step in (2, 5, 7):", "        show(x, y, items, model, box, net, left, right, vars(space)['level'], space.table, COUNT, STATE, LIST, SET, LOG, vars(config)['level'], config.scale, config.last, Box.made, counted.calls, torch.is_grad_enabled())"]
        return HEAD_DRIVER + "\n".join(line for line in lines if line) + "\n"


HEAD = '''import collections, contextlib, copy, dataclasses, enum, functools, gc, inspect, itertools, json, logging, math, operator, random, sys, time, traceback, types, typing, warnings
import torch
import torch.nn.functional as F
import torch.utils.checkpoint
import common

common.reset_into(globals())
COUNT = 0
STATE, LIST, SET = {"g": 1}, [], set()'''

HEAD_DRIVER = '''
model, items, numbers, table, counts = Model(), [], [1], {}, {"a": 1}
'''


def compiled(seed, name="program"):
    """The source of the program with this seed, and its code."""
    draw = random.Random(seed)
    while True:
        source = Program(draw.random()).source()
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                return source, devices.compiled(source, name)
        except SyntaxError:  # a walrus inside a comprehension's source, a jump out of except*: one in fifty
            pass


def program(seed):
    """The source of the program with this seed."""
    return compiled(seed)[0]


if __name__ == "__main__":
    import sys
    print(program(int(sys.argv[1])))
