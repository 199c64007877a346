"""Back ends: what turns a recorded graph into code. Each is a function `lower(description, inputs)` as the engine calls it."""

import copy
import functools
import importlib.metadata
import sys

import dynrun

GROUP = "torch_dynamo_backends"
OWN = ("dynrun", "eager", "inductor")
MODES = ("default", "reduce-overhead", "max-autotune", "max-autotune-no-cudagraphs")
MOST_CODES = 64  # that are kept of one graph, for different sizes and numbers
MOST_ALIKE = 1024
alike = {}  # what back ends made of graphs, for others like them


def names():
    from torch._dynamo.backends.registry import list_backends
    return sorted({*OWN, *list_backends(exclude_tags=()), *(point.name for point in importlib.metadata.entry_points(group=GROUP))})


def scope(backend, fullgraph, dynamic, mode, options):
    """The engine's form of what compile() and optimize() were given."""
    if backend in OWN and mode is not None and mode not in MODES:
        raise RuntimeError(f"Unrecognized mode={mode}, should be one of: {', '.join(MODES)}")
    options = tuple(sorted(options.items())) if options else ()
    return (None if backend == "dynrun" else lowering(backend, mode, options), int(fullgraph), True, None if dynamic is None else bool(dynamic))


def lowering(backend, mode=None, options=()):
    """The one function for this back end: the engine knows it by its identity."""
    try:
        return known_lowering(backend, mode, options)
    except TypeError:  # an option that cannot be hashed
        return new_lowering(backend, mode, options)


@functools.cache
def known_lowering(backend, mode, options):
    return new_lowering(backend, mode, options)


def new_lowering(backend, mode, options):
    if backend == "eager":
        return lower_eager
    if backend == "inductor":
        return once(functools.partial(lower_inductor, inductor_settings(mode, dict(options))))
    compiler = backend if callable(backend) else named(backend)
    keywords = {}
    if mode and mode != "default":
        keywords["mode"] = mode
    if options:
        keywords["options"] = dict(options)
    return once(functools.partial(lower_by, compiler, keywords))


def once(lower):
    """Of what one function does with several objects, a model's blocks for instance, the graphs that differ in nothing but their inputs are
    shown to a back end once: parameters are inputs."""
    def lower_once(description, inputs):
        key = lower, graph_key(description, inputs)
        code = alike.get(key)
        if code is None:
            if len(alike) >= MOST_ALIKE:
                alike.pop(next(iter(alike)), None)
            code = alike[key] = lower(description, inputs)
        return code

    return lower_once


def graph_key(description, inputs):
    """All of a graph, and the lines of the program that it comes from; but not the names of values and modules, which tell objects apart."""
    graph = [description[part] for part in ("inputs", "outputs", "entry", "open")]
    lines, places = program_lines(description["sources"])
    nodes = [(*node[:-1], places[node[-1]]) for node in description["nodes"]]
    return repr((graph, [type_ for _, type_ in description["values"]], nodes, lines, settings(), [kind_of(value) for value in inputs], shared_memory(inputs)))


def settings():
    """Of torch, that code may be made for."""
    import torch
    return (torch.are_deterministic_algorithms_enabled(), torch.is_deterministic_algorithms_warn_only_enabled(), torch.get_default_dtype(), torch.get_float32_matmul_precision(),
            torch.get_num_threads())


def kind_of(value):
    return type(value), hasattr(value, "is_conj") and (value.is_conj(), value.is_neg())


def shared_memory(inputs):
    """Of each input that is a tensor, the first one in the same storage, and where it lies in that: code may rely on what overlaps."""
    first = {}
    return [(first.setdefault(value.untyped_storage()._cdata, at), value.storage_offset()) for at, value in enumerate(inputs) if hasattr(value, "untyped_storage")]


def program_lines(sources):
    """Each (number of the caller's, file, line) once, and the number of each source's. Which way a module is called by makes no difference."""
    from torch.nn.modules import module
    numbers, places = {}, {-1: -1}
    for at, (file, _, line, caller, *_) in enumerate(sources):
        place = places[caller], file, line
        places[at] = places[caller] if file.startswith("<dynrun>/") or file == module.__file__ else numbers.setdefault(place, len(numbers))
    return list(numbers), places


def forget():
    """Back ends see all graphs anew."""
    known_lowering.cache_clear()
    alike.clear()


def named(name):
    """The callable of an installed package, or of torch's registry."""
    if not isinstance(name, str):
        raise TypeError(f"a back end is a name or a callable, not {type(name).__name__!r}")
    for point in importlib.metadata.entry_points(group=GROUP, name=name):
        return point.load()
    from torch._dynamo.backends import registry
    return registry.lookup_backend(name)


def lower_by(compiler, keywords, description, inputs):
    def for_these(values):
        with dynrun._part("_fx").quiet():
            sizes = dynrun._part("_symbols").Symbols(description, values, fixed=True) if is_for_many(description, values) else None
            module = dynrun._part("_fx").graph_module(description, values, sizes)
        return compiled_by(compiler, keywords, module, values)

    if not is_shown(description):
        return lower_eager(description, inputs)
    try:
        if is_for_many(description, inputs):
            return for_all(compiler, keywords, description, inputs, for_these)
        traced = graphs_traced()
        code = for_these(inputs)
    except Exception as error:
        if not decides_by_data(error) and not errors_are_suppressed():
            raise
        return lower_eager(description, inputs)  # torch.compile has a graph break there
    return code if traced == graphs_traced() else ForEachChoice(for_these, inputs, code)


def for_all(compiler, keywords, description, inputs, for_these):
    """A graph for many sizes, shown as such. A back end that traces it, or cannot do without numbers, is shown each choice of sizes."""
    with dynrun._part("_fx").quiet():
        symbols = dynrun._part("_symbols").Symbols(description, inputs)
        module = dynrun._part("_fx").graph_module(description, inputs, symbols)
    if not symbols.complete:
        return ForEachChoice(for_these, inputs, for_these(inputs))
    traced = graphs_traced()
    try:
        with symbols.shown():
            code = compiled_by(compiler, keywords, module, symbols.inputs)
    except Exception:
        return ForEachChoice(for_these, inputs, for_these(inputs))
    if traced != graphs_traced():
        return ForEachChoice(for_these, inputs, code)
    return dynrun._part("_symbols").WhileTrue(symbols, code, ForEachChoice(for_these))


def is_for_many(description, inputs):
    """Whether the graph is for more than these sizes and whole numbers."""
    return any(type(value) is int or (hasattr(value, "shape") and open_) for value, open_ in zip(inputs, description["open"]))


def errors_are_suppressed():
    config = sys.modules.get("torch._dynamo.config")
    return config is not None and config.suppress_errors


def compiled_by(compiler, keywords, module, inputs):
    note_reason(module)
    try:
        code = compiler(module, list(inputs), **keywords)
        if not callable(code):
            raise TypeError(f"back end {getattr(compiler, '__name__', compiler)!r} gave a {type(code).__name__} instead of a callable")
        return code
    except Exception as error:
        from torch._dynamo.exc import BackendCompilerFailed
        raise BackendCompilerFailed(compiler, error, None).with_traceback(error.__traceback__) from None


def note_reason(module):
    """What torch's own ExplainWithBackend asks a graph for."""
    if "torch._dynamo.output_graph" in sys.modules:
        from torch._dynamo.output_graph import GraphCompileReason
        module.compile_subgraph_reason = GraphCompileReason("dynrun", [], graph_break=False)


def is_shown(description):
    """Whether a back end is to see the graph: LSTMs that learn torch.compile shows to none, as AOTAutograd cannot differentiate oneDNN's."""
    learns = any(isinstance(type_, tuple) and type_[4] for _, type_ in description["values"])
    return not (learns and any(node[0] == "aten::lstm" for node in description["nodes"]))


def graphs_traced():
    """How many graphs AOTAutograd and make_fx have run through: what they make of one holds for the sizes and numbers of the example alone."""
    autograd, tracer = sys.modules.get("torch._functorch.aot_autograd"), sys.modules.get("torch.fx.experimental.proxy_tensor")
    if tracer and not hasattr(tracer.dispatch_trace, "traces"):
        tracer.dispatch_trace = counted(tracer.dispatch_trace)
    return repr(autograd.AOT_COUNTER) if autograd else "count(0)", tracer and tracer.dispatch_trace.traces


def counted(function):
    @functools.wraps(function)
    def dispatch_trace(*args, **kwargs):
        dispatch_trace.traces += 1
        return function(*args, **kwargs)

    dispatch_trace.traces = 0
    return dispatch_trace


def decides_by_data(error):
    """Whether a back end failed because tensors without contents cannot tell a size or a number."""
    fakes = sys.modules.get("torch._subclasses.fake_tensor")
    return fakes is not None and isinstance(getattr(error, "inner_exception", error), (fakes.DataDependentOutputException, fakes.DynamicOutputShapeException))


class ForEachChoice:
    """Code for each choice of sizes and numbers, made when it is first met."""

    def __init__(self, make, inputs=None, code=None):
        self.make, self.codes = make, {} if code is None else {self.key(inputs): code}

    @staticmethod
    def key(inputs):
        return tuple((type(value), value) if isinstance(value, (int, float, complex)) else
                     value is not None and (value.dtype, value.device, value.shape, value.stride(), value.requires_grad) for value in inputs)

    def __call__(self, *inputs):
        choice = self.key(inputs)
        code = self.codes.get(choice)
        if code is None:
            if len(self.codes) >= MOST_CODES:
                self.codes.pop(next(iter(self.codes)))
            code = self.codes[choice] = self.make(inputs)
        return code(*inputs)


def lower_eager(description, inputs):
    return dynrun._part("_fx").graph_module(description).forward


def inductor_settings(mode, options):
    from torch import _TorchCompileInductorWrapper
    return _TorchCompileInductorWrapper(mode or "default", options, None).config


def lower_inductor(settings, description, inputs):
    """The graph runs as it is where inductor cannot."""
    if not is_shown(description):
        return lower_eager(description, inputs)
    from torch._inductor.compile_fx import compile_fx
    module = dynrun._part("_fx").graph_module(description, inputs)

    def make(values):
        with dynrun._part("_fx").quiet():
            return compile_fx(copy.deepcopy(module), list(values), config_patches=settings)

    try:
        return ForEachChoice(make, inputs, make(inputs))
    except Exception as error:
        if not decides_by_data(error) and not errors_are_suppressed():
            raise
        return lower_eager(description, inputs)  # torch.compile has a graph break there
