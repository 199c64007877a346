"""tools/bench gpu and tools/bench models --device cuda: models on a GPU, beside torch.compile, in one run.

Each row is measured in forked or started processes of one machine, in turns: dynrun's and eager's, and plain python's, where
torch.compile runs as it is, with mode="reduce-overhead", and captured by hand in one CUDA graph. First calls are measured with an
empty kernel cache in one process, and with what that left there in the next.
"""

import ctypes
import functools
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

import children
import harness

PEERS = ("compile", "reduce", "graph")
TURNS = 3
AT_ONCE = 13   # models that get ready together; of batches half as many, for the device's memory
EMPTY_CACHE = "DYNRUN_BENCH_CACHE"
SUITES = (("float32", 1), ("float32", 32), ("bfloat16", 1), ("bfloat16", 32))


def batched(inputs, batch):
    """Arguments for so many items: those of as many seeds, joined."""
    import torch

    rows = [inputs(seed) for seed in range(batch)]
    args = tuple(torch.cat([args[i] for args, _ in rows]) for i in range(len(rows[0][0])))
    return args, {name: torch.cat([kwargs[name] for _, kwargs in rows]) for name in rows[0][1]}


def on_gpu(value, dtype):
    return value.cuda().to(dtype) if value.is_floating_point() else value.cuda()


def make(name, dtype, batch, small=False):
    """The model and the arguments of its call on the GPU."""
    import torch
    import zoo

    entry = next(entry for entry in zoo.MODELS if entry.name == name)
    model, inputs = entry.make(small=small)
    dtype = getattr(torch, dtype)
    args, kwargs = batched(inputs, batch)
    return model.cuda().to(dtype), tuple(on_gpu(arg, dtype) for arg in args), {key: on_gpu(arg, dtype) for key, arg in kwargs.items()}


def through_c(call):
    """The call behind a C function that dynrun cannot see through: a loop around it is not recorded as a whole, where what nobody
    looks at would not be computed."""
    function = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.py_object)(("PyObject_CallNoArgs", ctypes.pythonapi))
    return functools.partial(function, call)


def milliseconds(call, seconds=0.15):
    """Of a call, launches following one another as in a service: the median of several stretches."""
    import torch

    call = through_c(call)
    for _ in range(3):
        call()
    torch.cuda.synchronize()
    began = time.perf_counter()
    call()
    torch.cuda.synchronize()
    count = max(3, int(seconds / 3 / max(1e-5, time.perf_counter() - began)))
    stretches = []
    for _ in range(3):
        began = time.perf_counter()
        for _ in range(count):
            call()
        torch.cuda.synchronize()
        stretches.append((time.perf_counter() - began) / count * 1e3)
    return statistics.median(stretches)


def host_microseconds(call, behind=0):
    """Until a call comes back: the GPU idle at its beginning, and the caches cold where the host had to wait for that; or `behind` so
    many others, as in a service that does not wait for each."""
    import torch

    call = through_c(call)
    times = []
    for _ in range(20):
        torch.cuda.synchronize()
        for _ in range(behind):
            call()
        began = time.perf_counter()
        call()
        times.append((time.perf_counter() - began) * 1e6)
    return statistics.median(times)


def memory_growth(call, count):
    """By how many bytes so many calls leave what torch has allocated, and what the process holds of the device, larger."""
    import torch

    def taken():
        torch.cuda.synchronize()
        free, total = torch.cuda.mem_get_info()
        return torch.cuda.memory_allocated(), total - free

    call = through_c(call)
    call()
    before = taken()
    for _ in range(count):
        call()
    return [now - then for now, then in zip(taken(), before)]


def difference(outputs, expected, exact):
    """What speaks against the outputs, as text; empty where nothing does. `exact`: eager's in float64."""
    import zoo

    return [problem for got, right, truth in zip(zoo.tensors(outputs), zoo.tensors(expected), zoo.tensors(exact), strict=True)
            if (problem := further_off(got, right, truth))]


def further_off(got, right, truth):
    """A result may be off by what eager is off, twice, and by what its type can tell."""
    import torch

    if not got.is_floating_point():
        return "" if got.equal(right) else "another integer"
    if not got.isfinite().all() and right.isfinite().all():
        return "a number that is none"
    scale = truth.abs().max().item() or 1.0
    own, eager = (got.double() - truth).abs().max().item() / scale, (right.double() - truth).abs().max().item() / scale
    limit = 3 * eager + 8 * torch.finfo(got.dtype).eps
    return f"off by {own:.1e} of the largest, eager by {eager:.1e}" if own > limit else ""


def in_double(model, args, kwargs):
    import copy

    import torch

    twice = [arg.double() if arg.is_floating_point() else arg for arg in args]
    return copy.deepcopy(model).to(torch.float64)(*twice, **{key: arg.double() if arg.is_floating_point() else arg for key, arg in kwargs.items()})


def timed(call):
    """Seconds of a call and of what it leaves the GPU to do; what it gives."""
    import torch

    torch.cuda.synchronize()
    began = time.perf_counter()
    outputs = call()
    torch.cuda.synchronize()
    return time.perf_counter() - began, outputs


def first_call_steps(name, dtype, batch, options, dynrun):
    """A child of its own for a first call: once ready, by how many seconds it takes longer than eager's."""
    import torch

    with torch.no_grad():
        model, args, kwargs = make(name, dtype, batch, options.small)
        call = harness.thunk(model, args, kwargs)
        eager = harness.eagerly(dynrun, call)
        eager()
        yield
        first_eager, _ = timed(eager)
        dynrun.compile(model)
        return timed(call)[0] - first_eager


def row_steps(name, dtype, batch, options, dynrun):
    """dynrun's child of a row: once ready, the row without times, then each that is named: milliseconds of a side, microseconds of the host."""
    import torch

    with torch.no_grad():
        model, args, kwargs = make(name, dtype, batch, options.small)
        call = harness.thunk(model, args, kwargs)
        eager = harness.eagerly(dynrun, call)
        exact = harness.eagerly(dynrun, harness.thunk(in_double, (model, args, kwargs)))()
        expected = eager()
        torch.cuda.empty_cache()
        yield
        first_eager, _ = timed(eager)
        dynrun.compile(model)
        dynrun.reset_stats()
        first, _ = timed(call)
        calls = [call() for _ in range(5)]
        stats = dynrun.stats()
        problems = [problem for outputs in calls for problem in harness.eagerly(dynrun, harness.thunk(difference, (outputs, expected, exact)))()]
        del calls
        problems += harness.capture_problems(stats, 6, stats["operators_total"] // 6)
        if any(grown := memory_growth(call, options.replays)):
            problems.append(f"{options.replays} calls left {grown[0]} bytes allocated, {grown[1]} more taken from the device")
        times = {"eager": lambda: milliseconds(eager), "dynrun": lambda: milliseconds(call), "host": lambda: host_microseconds(call), "queued": lambda: host_microseconds(call, 4)}
        name = yield {"first": first - first_eager, "segments": stats["segments_compiled"], "problems": sorted(set(problems))}
        while True:
            name = yield times[name]()


def in_hand_made_graph(call):
    import torch

    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        for _ in range(3):
            call()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        call()
    return graph.replay


def compiled_call(mode, model, args, kwargs):
    """A call of the model as torch.compile makes it, compiled and run three times."""
    import torch

    torch._dynamo.reset()
    call = harness.thunk(torch.compile(model, mode=mode), args, kwargs)
    for _ in range(3):
        call()
    return call


def peer_steps(options):
    """The child of plain python: once ready, the peers that do not fail; then the milliseconds of each that is named. The hand-made graph
    holds the code that torch.compile has made by itself."""
    import torch

    name, dtype, batch = options.models.split("|")
    with torch.no_grad():
        model, args, kwargs = make(name, dtype, int(batch), options.small)
        plain, calls = None, {}
        for peer in sorted(options.peer_child.split(","), key=("compile", "graph", "reduce").index):
            try:
                if peer == "reduce":
                    calls[peer] = compiled_call("reduce-overhead", model, args, kwargs)
                else:
                    plain = plain or compiled_call(None, model, args, kwargs)
                    calls[peer] = in_hand_made_graph(plain) if peer == "graph" else plain
                calls[peer]()
            except Exception as error:  # whatever a peer raises, the others have their turn
                calls.pop(peer, None)
                print(f"{name}, {peer}: {error!r:.300}", file=sys.stderr)
        torch.cuda.empty_cache()
        side = yield list(calls)
        while True:
            side = yield milliseconds(calls[side])


def start_peers(label, peers, at_once, options):
    """The child of plain python that gets these peers ready; it begins at once."""
    command = [options.python, options.script, options.suite, "--peer-child", ",".join(peers), "--models", label, "--device", "cuda"] + (["--small"] if options.small else [])
    environment = {key: value for key, value in os.environ.items() if not key.startswith("DYNRUN")}
    return children.started(command, environment | {"TORCHINDUCTOR_COMPILE_THREADS": str(max(1, (os.cpu_count() or 1) // at_once))})


def run(options, dynrun):
    """`tools/bench gpu`: the anchor models, or those that are named."""
    import zoo

    if not has_gpu():
        sys.exit("tools/bench gpu: there is no GPU that torch can use")
    if options.peer_child:
        return children.serve(peer_steps(options), sys.stdin, children.quiet())
    peers = tuple(options.peer_names.split(",")) if options.peer_names else PEERS if options.peers else ()
    return print_suites(chosen(SUITES, options), [entry for entry in zoo.select(options.models) if entry.anchor or options.models], peers, options, dynrun)


def run_models(options, dynrun):
    """`tools/bench models --device cuda`: the whole list, one item a call."""
    import zoo

    if not has_gpu():
        sys.exit("tools/bench models --device cuda: there is no GPU that torch can use")
    return print_suites(chosen((("float32", 1), ("bfloat16", 1)), options), zoo.select(options.models), (), options, dynrun)


def chosen(suites, options):
    return [suite for suite in suites if not options.only or f"{suite[0]}:{suite[1]}" in options.only.split(",")]


def with_empty_cache():
    """The folder of a kernel cache that is this run's alone: runs the process again with one where there is none yet."""
    if EMPTY_CACHE not in os.environ:
        folder = tempfile.mkdtemp(prefix="dynrun-bench-")
        command = pathlib.Path("/proc/self/cmdline").read_bytes().split(b"\0")[:-1]
        status = subprocess.run(command, executable=os.readlink("/proc/self/exe"), env=os.environ | {EMPTY_CACHE: folder, "XDG_CACHE_HOME": folder}, check=False).returncode
        shutil.rmtree(folder, ignore_errors=True)
        sys.exit(status)
    return pathlib.Path(os.environ[EMPTY_CACHE])


def print_suites(suites, entries, peers, options, dynrun):
    cache = with_empty_cache()
    passed = failed = 0
    for dtype, batch in suites:
        print(f"{dtype}, batch {batch}: {'eager ms':>16} {'dynrun ms':>9} {'ratio':>7} {'host us':>8} {'queued':>7} {'cold s':>7} {'warm s':>7} {'segs':>4}" + "".join(f" {peer:>9}" for peer in peers), flush=True)
        ratios = {side: [] for side in ("dynrun", *peers)}
        for row in rows_of(dtype, batch, [entry.name for entry in entries], peers, options, dynrun):
            right = print_row(row, cache, ratios)
            passed, failed = passed + right, failed + (not right)
        print("geomean over eager: " + ", ".join(f"{side} {harness.geomean(values):.2f}x of {len(values)}" for side, values in ratios.items()), flush=True)
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


class Row:
    """The children of a model: one for a first call with an empty cache, one for all else of dynrun, one for the peers."""

    def __init__(self, name, dtype, batch, peers, at_once, options, dynrun):
        self.name, self.ready = name, ()
        self.cold, self.own = (children.forked(steps, name, dtype, batch, options, dynrun) for steps in (first_call_steps, row_steps))
        self.peers = start_peers(f"{name}|{dtype}|{batch}", peers, at_once, options) if peers else None

    def wait_until_ready(self):
        self.cold.answer()
        self.own.answer()
        self.ready = self.peers.answer().get("value", ()) if self.peers else ()

    def times(self):
        """By name, all in turns: milliseconds of the sides, microseconds of dynrun's host. Where the machine is slow for a second, one turn is."""
        named = dict.fromkeys(("eager", "dynrun", "host", "queued"), self.own) | dict.fromkeys(self.ready, self.peers)
        turns = [{name: child.ask(name)["value"] for name, child in named.items()} for _ in range(TURNS)]
        return {name: statistics.median(turn[name] for turn in turns) for name in named}

    def end(self):
        for child in (self.cold, self.own, self.peers):
            if child is not None:
                child.end()


def rows_of(dtype, batch, names, peers, options, dynrun):
    """The rows, each ready; several get ready together, while none is measured."""
    at_once = max(1, min(os.cpu_count() or 1, AT_ONCE if batch == 1 else AT_ONCE // 2))
    for first in range(0, len(names), at_once):
        group = [Row(name, dtype, batch, peers, at_once, options, dynrun) for name in names[first:first + at_once]]
        for row in group:
            row.wait_until_ready()
        for row in group:
            yield row
            row.end()


def print_row(row, cache, ratios):
    """Measures a model and its peers, whose ratios over eager are added to `ratios`; whether all was right."""
    for file in cache.rglob("*"):
        if file.is_file():
            file.unlink()
    cold = row.cold.ask()
    row.cold.end()
    own = row.own.ask()
    for answer in (cold, own):
        if "error" in answer:
            print(f"{row.name:<20} failed: {answer['error']}", flush=True)
            return False
    own, took = own["value"], row.times()
    for side, values in ratios.items():
        if side in took:
            values.append(took["eager"] / took[side])
    line = (f"{row.name:<22} {took['eager']:>9.3f} {took['dynrun']:>9.3f} {took['eager'] / took['dynrun']:>6.2f}x {took['host']:>8.0f} {took['queued']:>7.0f} {cold['value']:>7.2f} "
            f"{own['first']:>7.2f} {own['segments']:>4}")
    print(line + "".join(f" {took[peer]:>9.3f}" if peer in took else f" {'fails':>9}" for peer in ratios if peer != "dynrun"), flush=True)
    for problem in own["problems"]:
        print(f"    ! {problem}", flush=True)
    return not any(not problem.startswith("note") for problem in own["problems"])


def has_gpu():
    import torch

    return torch.cuda.device_count() > 0
