"""Microseconds of one call: eager and torch.compile in a plain python beside dynrun, in turns.

The peer is a child process of plain python that makes the same case and times what it is told to, so that one turn times eager,
torch.compile and dynrun one after the other. One intra-op thread; what the cases print goes to the null device.
"""

import contextlib
import importlib
import os
import sys
import time

import children
import harness

TABLES = {"breaks": ("breaks", "CASES"), "calls": ("calls", "CASES"), "outside": ("outside_cases", "CASES")}
BATCH_SECONDS = 0.004   # one timing, about
FIRST_CALLS = 6
PEERS_AHEAD = max(1, min(16, os.cpu_count() or 1))   # made ready together, before the first of them is measured


def cases(suite):
    module, name = TABLES[suite]
    return getattr(importlib.import_module(module), name)


def microseconds(call, calls):
    """Of one call, mean of `calls`, with what they leave a GPU to do."""
    import torch

    wait = torch.cuda.synchronize if torch.cuda.is_initialized() else lambda: None
    wait()
    began = time.perf_counter()
    for _ in range(calls):
        call()
    wait()
    return (time.perf_counter() - began) * 1e6 / calls


def batch_of(call):
    """How many calls take about BATCH_SECONDS once the caches are warm."""
    calls = 3
    for _ in range(3):
        calls = max(3, min(2000, int(BATCH_SECONDS * 1e6 / max(microseconds(call, calls), 0.5))))
    return calls


def make(suite, name, device):
    import torch

    torch.set_num_threads(1)
    torch.manual_seed(0)  # the same weights on every side
    with torch.device(device) if device != "cpu" else contextlib.nullcontext():
        return cases(suite)[name]()


def count_frames(frames):
    """From now on counts the case's own frames that torch.compile looks at, and those that it compiles; not torch's and the
    standard library's, of which it meets more or fewer by what its caches hold."""
    import functools
    import sysconfig

    import torch
    from torch._dynamo import convert_frame
    from torch._dynamo.utils import counters

    foreign = (os.path.dirname(torch.__file__), sysconfig.get_path("stdlib"))
    look = convert_frame.ConvertFrame.__call__

    @functools.wraps(look)
    def counted(self, frame, *args, **kwargs):
        before = counters["frames"]["ok"]
        try:
            return look(self, frame, *args, **kwargs)
        finally:
            if not frame.f_code.co_filename.startswith(foreign):
                frames["total"] += 1
                frames["ok"] += counters["frames"]["ok"] > before

    convert_frame.ConvertFrame.__call__ = counted


def peer_steps(options):
    """The child: ready with the names of its sides and what torch.compile made of the frames; answers each name with microseconds."""
    import torch

    with torch.no_grad():
        function, args = make(options.suite, options.models, options.device)
        sides = {"eager": harness.thunk(function, args)}
        frames = {}
        if "compile" in options.peer_child:
            frames = {"ok": 0, "total": 0}
            count_frames(frames)
            compiled, args = make(options.suite, options.models, options.device)  # objects of its own: cases keep state
            sides["compile"] = harness.thunk(torch.compile(compiled), args)
        for name, call in list(sides.items()):
            try:
                for _ in range(FIRST_CALLS):
                    call()
            except Exception as error:  # the peer's failure is a result
                print(f"{options.models}: {name}: {error}", file=sys.stderr)
                del sides[name]
        batches = {name: batch_of(call) for name, call in sides.items()}
        side = yield {"sides": list(sides), "frames": frames if "compile" in sides else {}}
        while True:
            side = yield microseconds(sides[side], batches[side])


def peer_main(options):
    children.serve(peer_steps(options), sys.stdin, children.quiet())


class Peer:
    """The plain python child of one case, which begins at once; `sides` are what it can time, once it is ready."""

    def __init__(self, suite, name, options):
        wanted = "eager,compile" if options.peers else "eager"
        command = [options.python, options.script, suite, "--peer-child", wanted, "--models", name, "--device", options.device]
        environment = {key: value for key, value in os.environ.items() if not key.startswith("DYNRUN")}
        self.child = children.started(command, environment | {"OMP_NUM_THREADS": "1"})
        self.sides, self.frames = [], {}

    def wait_until_ready(self):
        ready = self.child.answer().get("value", {"sides": [], "frames": {}})
        self.sides, self.frames = ready["sides"], ready["frames"]

    def time(self, side):
        return self.child.ask(side)["value"]

    def close(self):
        self.child.end()


def flat(value):
    import torch

    if isinstance(value, torch.Tensor):
        return [value]
    if isinstance(value, dict):
        return [tensor for item in value.values() for tensor in flat(item)]
    return [tensor for item in value for tensor in flat(item)] if isinstance(value, (list, tuple)) else []


def peers_of(suite, names, options):
    """Each name with its peer, which is ready and waits."""
    for first in range(0, len(names), PEERS_AHEAD):
        group = [(name, Peer(suite, name, options)) for name in names[first:first + PEERS_AHEAD]]
        for _, peer in group:
            peer.wait_until_ready()
        for name, peer in group:
            yield name, peer
            peer.close()


def measure(suite, name, peer, options, dynrun):
    """One row, as a dict. Times are the least of the turns: what the code takes when nobody else has the core."""
    import torch

    children.quiet()
    with torch.no_grad():
        reference, args = make(suite, name, options.device)
        function, own_args = make(suite, name, options.device)
        call = harness.thunk(function, own_args)
        eager = harness.eagerly(dynrun, harness.thunk(reference, args))
        expected = [eager() for _ in range(FIRST_CALLS + 1)]
        dynrun.reset_stats()
        dynrun.compile(function)
        outputs = [call() for _ in range(FIRST_CALLS)]
        segments = dynrun.stats()["segments_compiled"]
        dynrun.reset_stats()
        outputs.append(call())
        stats = dynrun.stats()
        difference = 0.0
        with dynrun.disable():
            for got, right in zip(outputs, expected):
                for a, b in zip(flat(got), flat(right), strict=True):
                    difference = max(difference, (a.double() - b.double()).abs().max().item() / max(1.0, b.double().abs().max().item()))
        batch = batch_of(call)
        times = {side: [] for side in [*peer.sides, "dynrun"]}
        for _ in range(options.runs):
            for side, into in times.items():
                into.append(microseconds(call, batch) if side == "dynrun" else peer.time(side))
    return {"name": name, "difference": difference, "segments": segments, "replays": stats["segment_replays"],
            "breaks": max(0, stats["segment_replays"] - 1), "recorded": stats["segments_compiled"],
            "skipped": stats["frames_skipped"], "captured": stats["operators_captured"], "operators": stats["operators_total"],
            "frames": peer.frames, **{side: min(into) for side, into in times.items()}}


def limit(row):
    """What part of torch.compile's time the row may take: less where that leaves a frame to CPython."""
    return 0.35 if row["frames"].get("ok") != row["frames"].get("total") else 0.6


def problems(row, suite):
    """What speaks against a row. Failures of speed are marked with ~: they depend on the machine's other work."""
    found = []
    if row["difference"] > 1e-4:
        found.append(f"WRONG by {row['difference']:.1e}")
    if row["dynrun"] > row["eager"]:
        found.append("~slower than eager")
    if suite == "breaks" and row["skipped"]:
        found.append(f"{row['skipped']} frames skipped")
    if suite == "breaks" and row.get("compile") and row["dynrun"] > limit(row) * row["compile"]:
        found.append(f"~over {limit(row)}x of torch.compile")
    return found


def run(suite, options, dynrun):
    import torch  # noqa: F401  (before the forks)

    wanted = [part for part in options.models.split(",") if part]
    names = [name for name in cases(suite) if not wanted or any(part in name for part in wanted)]
    print(f"{'case':<36} {'eager us':>9} {'compile us':>10} {'dynrun us':>9} {'/ eager':>8} {'/ compile':>9} {'segments':>8} {'breaks':>6} "
          f"{'skipped':>7} {'captured':>9} {'its frames':>10}")
    failed = slow = 0
    for name, peer in peers_of(suite, names, options):
        answer = harness.in_child(measure, suite, name, peer, options, dynrun)
        if "error" in answer:
            failed += 1
            print(f"{name:<36} failed: {answer['error']}", flush=True)
            continue
        row = answer["value"]
        compiled = row.get("compile")
        frames = f"{row['frames']['ok']} of {row['frames']['total']}" if row["frames"] else "-"
        found = problems(row, suite)
        failed += any(not problem.startswith("~") for problem in found)
        slow += any(problem.startswith("~") for problem in found)
        print(f"{name:<36} {row['eager']:>9.1f} {compiled or float('nan'):>10.1f} {row['dynrun']:>9.1f} {row['dynrun'] / row['eager']:>7.3f}x "
              f"{row['dynrun'] / compiled if compiled else float('nan'):>8.2f}x {row['segments']:>8} {row['breaks']:>6} {row['skipped']:>7} "
              f"{row['captured']:>4}/{row['operators']:<4} {frames:>10}" + "".join(f"  {problem}" for problem in found), flush=True)
    print(f"{len(names) - failed} passed, {failed} failed, {slow} over their time")
    return 1 if failed else 0
