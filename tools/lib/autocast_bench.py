"""tools/bench autocast: models under torch.autocast, a region of its own around each call, beside eager and torch.compile.

Right is what is no further from float64 than eager under autocast is, up to half of that (sums are rounded at other places).
"""

import json
import statistics
import subprocess
import sys
import time

import harness


def make(name, options):
    """A function that calls the model in a region of autocast, and the arguments of four calls."""
    import torch
    import zoo

    torch.set_num_threads(options.threads)
    model, inputs = next(entry for entry in zoo.MODELS if entry.name == name).make(small=options.small)
    model.to(options.device)

    def to_device(value):
        return value.to(options.device) if isinstance(value, torch.Tensor) else value

    calls = [(tuple(map(to_device, args)), {key: to_device(value) for key, value in kwargs.items()}) for args, kwargs in map(inputs, range(4))]

    def in_region(function, args, kwargs):
        with torch.autocast(options.device, dtype=torch.bfloat16):
            return function(*args, **kwargs)

    return model, in_region, calls


def milliseconds(call, options):
    import torch

    began = time.perf_counter()
    call()
    if options.device == "cuda":
        torch.cuda.synchronize()
    return (time.perf_counter() - began) * 1e3


def in_turns(sides, options):
    times = [[] for _ in sides]
    began = time.perf_counter()
    while len(times[0]) < 5 or (len(times[0]) < options.runs and time.perf_counter() - began < options.seconds):
        for call, into in zip(sides, times):
            into.append(milliseconds(call, options))
    return [statistics.median(into) for into in times]


def distance(outputs, exact):
    import zoo

    return sum((a.double() - b.double()).square().sum().item() for a, b in zip(zoo.tensors(outputs), zoo.tensors(exact), strict=True)) ** 0.5


def measure(name, options, dynrun):
    import torch
    import zoo

    with torch.no_grad():
        model, in_region, calls = make(name, options)
        eager = [harness.eagerly(dynrun, harness.thunk(in_region, (model, *call))) for call in calls]
        exact = [harness.eagerly(dynrun, harness.thunk(zoo.in_double, (model, *call)))() for call in calls]
        expected = [call() for call in eager]
        dynrun.compile(model)
        ours = [harness.thunk(in_region, (model, *call)) for call in calls]
        outputs = [[call() for call in ours] for _ in range(3)][-1]

        def problems():
            told = [[(tensor.dtype, tensor.shape, tensor.stride()) for tensor in zoo.tensors(output)] for output in (outputs, expected)]
            far = max(distance(*pair) for pair in zip(outputs, exact)) / max(distance(*pair) for pair in zip(expected, exact))
            return ([] if told[0] == told[1] else ["other types"]) + ([f"{far:.2f} times as far from float64 as eager"] if far > 1.5 else [])

        found = harness.eagerly(dynrun, problems)()
        eager_ms, dynrun_ms = in_turns((eager[0], ours[0]), options)
    return {"eager_ms": eager_ms, "dynrun_ms": dynrun_ms, "problems": found}


def measure_peer(name, options):
    import torch

    with torch.no_grad():
        model, in_region, calls = make(name, options)
        sides = [harness.thunk(in_region, (side, *calls[0])) for side in (model, torch.compile(model))]
        for _ in range(4):
            sides[1]()
        eager_ms, peer_ms = in_turns(sides, options)
    return eager_ms / peer_ms


def peer_ratio(name, options):
    command = [options.python, options.script, "autocast", "--peer-child", "compile", "--models", name, "--device", options.device, "--threads", str(options.threads)]
    done = subprocess.run(command + (["--small"] if options.small else []), capture_output=True, text=True, check=False)
    try:
        return json.loads(done.stdout.splitlines()[-1])
    except (IndexError, ValueError):
        return None


def run(options, dynrun):
    import torch  # noqa: F401  (before the forks)
    import zoo

    if options.peer_child:
        print(json.dumps(measure_peer(options.models, options)))
        return 0
    print(f"{'model':<20} {'eager ms':>9} {'dynrun ms':>9} {'ratio':>8}" + ("   compile" if options.peers else ""), flush=True)
    ratios, failed = [], 0
    for entry in zoo.select(options.models):
        answer = harness.in_child(measure, entry.name, options, dynrun)
        row = answer.get("value", {"problems": [answer.get("error", "")]})
        failed += bool(row["problems"])
        if "eager_ms" in row:
            ratios.append(row["eager_ms"] / row["dynrun_ms"])
            peer = peer_ratio(entry.name, options) if options.peers else None
            told = "" if not options.peers else f" {peer:>8.2f}x" if peer else f" {'fails':>9}"
            print(f"{entry.name:<20} {row['eager_ms']:>9.2f} {row['dynrun_ms']:>9.2f} {ratios[-1]:>7.2f}x{told}", flush=True)
        for problem in row["problems"]:
            print(f"    ! {entry.name}: {problem}", flush=True)
    print(f"geomean over eager under autocast: {harness.geomean(ratios):.2f}x of {len(ratios)}; slowest {min(ratios, default=0):.2f}x")
    print(f"{len(zoo.select(options.models)) - failed} passed, {failed} failed")
    sys.stdout.flush()
    return 1 if failed else 0
