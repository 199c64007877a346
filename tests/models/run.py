#!/usr/bin/env python3
"""Tests real models under dynrun against eager: results, capture, training, memory and lifetimes.

Run as `dynrun tests/models/run.py [--filter NAMES] [--full]`; started by another python it starts the built dynrun. Each check
is a forked child, so that one crash fails one check.
"""

import argparse
import contextlib
import copy
import pathlib
import sys
import time
import weakref

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

import harness  # noqa: E402

dynrun = harness.under_dynrun(__file__)

import generation  # noqa: E402
import leaks  # noqa: E402
import torch  # noqa: E402
import zoo  # noqa: E402


def structure(value):
    """Types, dtypes, shapes and strides of an output, without its numbers."""
    if isinstance(value, torch.Tensor):
        return (type(value).__name__, str(value.dtype), tuple(value.shape), value.stride(), value.requires_grad)
    if isinstance(value, dict):
        return (type(value).__name__, [(key, structure(item)) for key, item in value.items()])
    if isinstance(value, (list, tuple)):
        return (type(value).__name__, [structure(item) for item in value])
    return type(value).__name__


def compare(outputs, expected, exact):
    """How the outputs of each call differ from what eager gave."""
    problems = []
    for index, (got, right) in enumerate(zip(outputs, expected)):
        if structure(got) != structure(right):
            problems.append(f"call {index}: structure {structure(got)} instead of {structure(right)}"[:600])
            continue
        difference = zoo.compare(got, right, exact[index])
        if difference:
            problems.append(difference if difference.startswith("note") else f"call {index}: {difference}")
    return problems


def check_model(entry, full):
    """One segment, every operator captured, and eager's results on three inputs after the first."""
    torch.set_num_threads(2)
    problems = []
    with torch.no_grad():
        model, inputs = entry.make(small=not full)
        calls = [harness.thunk(model, *inputs(seed)) for seed in range(4)]
        exact = [harness.thunk(zoo.in_double, (model, *inputs(seed))) for seed in range(4)]
        expected = [harness.eagerly(dynrun, call)() for call in calls]
        operators = zoo.count_operators(harness.eagerly(dynrun, calls[0]))
        dynrun.compile(model)
        dynrun.reset_stats()
        outputs = [call() for call in calls]
        stats = dynrun.stats()
        if harness.is_real(dynrun):
            problems += harness.capture_problems(stats, len(calls), operators)
        problems += harness.eagerly(dynrun, harness.thunk(compare, (outputs, expected, exact)))()
    return problems


def magnified(difference, ours, eagers, exact, where):
    """Batch norm over few values magnifies rounding: as far from float64 as eager is (root mean square), ours is right all the same.

    `eagers` are eager's answers in either memory format: a convolution of channels-last memory, which replays choose too,
    sums its products in one chain and is 2.5 times as far from float64 as one that sums them in blocks of channels.
    """
    def off(values):
        return sum((value.double() - truth.double()).square().sum().item() for value, truth in zip(zoo.tensors(values), zoo.tensors(exact), strict=True)) ** 0.5

    far, eager_far = off(ours), [off(values) for values in eagers]
    text = " or ".join(f"{distance:.1e}" for distance in eager_far)
    if far <= 2 * max(eager_far):
        return [f"note: {where}: not close, but off from float64 by {far:.1e} where eager is by {text}"]
    return [f"{where}: {difference}; from float64 {far:.1e}, eager {text}"]


def statistics(model):
    """The running statistics of a model; its counters."""
    buffers = list(model.buffers())
    return [value for value in buffers if value.is_floating_point()], [value for value in buffers if not value.is_floating_point()]


def check_train_mode(entry, grad):
    """Three calls in train mode: eager's outputs, buffers, gradients and random stream."""
    torch.set_num_threads(1)
    problems = []
    with torch.set_grad_enabled(grad):
        model, inputs = entry.make(small=True)
        model.train()
        eager = copy.deepcopy(model)

        def call(module, seed, cast=lambda value: value):
            args, kwargs = inputs(seed)
            args = [cast(torch.cat([arg, arg.flip(-1)])) for arg in args]  # batch norm wants more than one value a channel
            kwargs = {name: cast(value) for name, value in kwargs.items()}
            torch.manual_seed(seed)
            return module(*args, **kwargs)

        def backward(module, out):
            module.zero_grad()
            sum(value.square().mean() for value in zoo.tensors(out) if value.requires_grad).backward()
            return [parameter.grad for parameter in module.parameters() if parameter.grad is not None]

        def widen(value):
            return value.double() if value.is_floating_point() else value

        def channels_last(value):
            return value.contiguous(memory_format=torch.channels_last) if value.dim() == 4 else value

        def again(before, seed, kind, prepare, cast):
            """What another way to compute gives for a call from the state `before`: outputs, gradients or statistics."""
            other = prepare(copy.deepcopy(before))
            out = call(other, seed, cast)
            return {"gradients": lambda: backward(other, out), "outputs": lambda: out, "statistics": lambda: statistics(other)[0]}[kind]()

        dynrun.compile(model)
        dynrun.reset_stats()
        for seed in range(4):
            got = call(model, seed)
            stream = torch.get_rng_state()
            with dynrun.disable():
                before = copy.deepcopy(eager)
                expected = call(eager, seed)
                if not torch.equal(stream, torch.get_rng_state()):
                    problems.append(f"call {seed}: the random stream is not where eager leaves it")
                if structure(got) != structure(expected):
                    problems.append(f"call {seed}: structure {structure(got)} instead of {structure(expected)}"[:600])
                pairs = {"outputs": (got, expected), "statistics": (statistics(model)[0], statistics(eager)[0])}
                if grad:
                    pairs["gradients"] = (backward(model, got), backward(eager, expected))
                for kind, (ours, eagers) in pairs.items():
                    difference = zoo.not_close(ours, eagers)
                    if difference:
                        exact = again(before, seed, kind, lambda module: module.double(), widen)
                        other = again(before, seed, kind, lambda module: module.to(memory_format=torch.channels_last), channels_last)
                        problems += magnified(difference, ours, (eagers, other), exact, f"call {seed}: {kind}")
                if not all(map(torch.equal, statistics(model)[1], statistics(eager)[1])):
                    problems.append(f"call {seed}: a counter is not eager's")
                model.load_state_dict(eager.state_dict())  # rounding does not add up over the calls
        stats = dynrun.stats()
        if harness.is_real(dynrun) and stats["segment_replays"] == 0:
            problems.append("nothing was replayed")
    return list(dict.fromkeys(problems))


def train_step(model, optimizer, images, labels):
    optimizer.zero_grad()
    loss = torch.nn.functional.cross_entropy(model(images), labels)
    loss.backward()
    optimizer.step()
    return loss.detach()


def check_training(kind):
    """Five steps of resnet18: eager's losses and weights."""
    import torchvision

    torch.set_num_threads(2)
    with zoo.seeded():
        first = torchvision.models.resnet18(num_classes=10).train()
    second = copy.deepcopy(first)
    make = {"SGD": lambda p: torch.optim.SGD(p, lr=0.01, momentum=0.9, weight_decay=1e-4),
            "Adam": lambda p: torch.optim.Adam(p, lr=1e-3)}[kind]

    def train(model, wrap):
        optimizer = make(model.parameters())
        torch.manual_seed(1)
        return [wrap(harness.thunk(train_step, (model, optimizer, torch.randn(4, 3, 64, 64), torch.randint(0, 10, (4,)))))()
                for _ in range(5)]

    dynrun.compile(train_step)
    expected = train(first, lambda call: harness.eagerly(dynrun, call))
    got = train(second, lambda call: call)
    problems = []
    try:
        torch.testing.assert_close(got, expected)
        torch.testing.assert_close(dict(second.state_dict()), dict(first.state_dict()))
    except AssertionError as error:
        problems.append(" ".join(str(error).split())[:400])
    if sum(p.grad is None for p in second.parameters()):
        problems.append("a parameter has no gradient")
    return problems


def check_leaks(grad):
    """10,000 replays of a small model leave neither objects nor memory behind."""
    torch.set_num_threads(1)
    model = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.ReLU(), torch.nn.LayerNorm(8), torch.nn.Linear(8, 8)).eval()
    compiled = dynrun.compile(model)

    def run(times):
        with torch.set_grad_enabled(grad):
            for step in range(times):
                out = compiled(torch.full((2, 8), float(step)))
                if grad:
                    out.sum().backward()

    run(1)
    references = sys.getrefcount(model)
    problems = leaks.growth(run, leaks.WARM, leaks.TURNS)
    if sys.getrefcount(model) != references:
        problems.append(f"{sys.getrefcount(model) - references} more references to the model")
    return problems


def peak_of_call(name, how):
    """MiB the process held at most during one call: an eager one, the one that records, or the first one of a compiled model."""
    torch.set_num_threads(2)
    entry = zoo.select(name)[0]
    with torch.no_grad():
        model, inputs = entry.make(small=False)
        run = harness.thunk(model, *inputs(0))
        if how == "compiling":
            dynrun.compile(model)
        elif how == "eager":
            run = harness.eagerly(dynrun, run)
        if how != "compiling":
            run()  # nothing is recorded before the second call
        dynrun.reset_stats()
        with open("/proc/self/clear_refs", "w", encoding="ascii") as file:
            file.write("5")
        run()
    recorded = dynrun.stats()["segments_compiled"]
    with open("/proc/self/status", encoding="ascii") as file:
        return next(int(line.split()[1]) / 1024 for line in file if line.startswith("VmHWM")), recorded


def check_peak(name):
    """The call that records needs at most 1.1 times what an eager one does. What a compiled model's first call needs is told."""
    answers = {how: harness.in_child(peak_of_call, name, how) for how in ("eager", "recording", "compiling")}
    for answer in answers.values():
        if "error" in answer:
            return [answer["error"]]
    (eager, _), (recording, recorded), (compiling, _) = (answer["value"] for answer in answers.values())
    problems = [f"note: peak {recording:.0f} MiB recording, {eager:.0f} eager, {compiling:.0f} with the weights packed in the same call"]
    if recording > 1.1 * eager:
        problems.append(f"peak {recording:.0f} MiB, eager {eager:.0f} MiB")
    if harness.is_real(dynrun) and recorded != 1:
        problems.append(f"the second call recorded {recorded} segments")
    return problems


def check_generation(name):
    """transformers' generate(): eager's tokens, and nearly all operators captured once the loop is known."""
    model, generate = generation.prepare(name, new_tokens=24)
    torch.set_num_threads(2)
    with dynrun.disable():
        expected = [generate(seed).tolist() for seed in range(2)]
    dynrun.compile(model)
    dynrun.reset_stats()
    problems = [f"call {call}: other tokens" for call in range(3) if generate(call % 2).tolist() != expected[call % 2]]
    recorded = generation.loop_segments(dynrun.stats())
    if recorded > 18:
        problems.append(f"{recorded} segments for the loop")
    dynrun.reset_stats()
    tokens = generate(1)
    stats = dynrun.stats()
    if tokens.tolist() != expected[1]:
        problems.append("other tokens in the last call")
    if harness.is_real(dynrun) and stats["operators_captured"] < 0.99 * stats["operators_total"]:
        problems.append(f"captured {stats['operators_captured']} of {stats['operators_total']} operators")
    return problems


def lifetimes(compiled):
    """Which of argument, result, parameter and model are dead after each `del`."""
    model = torch.nn.Sequential(torch.nn.Conv2d(1, 2, 3), torch.nn.BatchNorm2d(2), torch.nn.ReLU()).eval()
    if compiled:
        dynrun.compile(model)
    dead = []
    with torch.no_grad(), contextlib.nullcontext() if compiled else dynrun.disable():
        for _ in range(4):
            images = torch.randn(1, 1, 8, 8)
            out = model(images)
            watched = [weakref.ref(images), weakref.ref(out), weakref.ref(model[0].weight), weakref.ref(model)]
            del images
            dead.append([ref() is None for ref in watched])
            del out
            dead.append([ref() is None for ref in watched])
    del model
    dead.append([ref() is None for ref in watched])
    return dead


def check_lifetimes():
    expected, got = lifetimes(False), lifetimes(True)
    return [] if got == expected else [f"dead {got}, under eager {expected}"]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--filter", default="", help="only checks whose name contains one of these (comma separated)")
    parser.add_argument("--train", action="store_true", help="every model in train mode, not a quarter of them")
    parser.add_argument("--full", action="store_true", help="full-size inputs and all layers")
    options = parser.parse_args()

    checks = [(entry.name, check_model, (entry, options.full)) for entry in zoo.MODELS + zoo.CACHE_MODELS]
    # All of the models in train mode take too long for every run: a quarter of them, another one each day, unless asked for.
    trained = zoo.MODELS + zoo.TRAIN_MODELS
    if not options.train and "train_mode" not in options.filter:
        trained = trained[time.localtime().tm_yday % 4::4]
    checks += [(f"train_mode_{'grad' if grad else 'no_grad'}_{entry.name}", check_train_mode, (entry, grad)) for entry in trained for grad in (False, True)]
    checks += [(f"train_{kind.lower()}", check_training, (kind,)) for kind in ("SGD", "Adam")]
    checks += [("leaks_no_grad", check_leaks, (False,)), ("leaks_backward", check_leaks, (True,)),
               ("lifetimes", check_lifetimes, ()), ("lifetimes_models", leaks.check_models_die, (dynrun,)), ("peak_memory", check_peak, ("resnet50",))]
    checks += [(f"generate {name}", check_generation, (name,)) for name in ("gpt2 greedy dynamic", "gpt2 sampling static", "llama beam dynamic", "llama greedy static", "t5 beam dynamic", "gpt2 beam static")]
    checks += [(f"leaks_{program.__name__}", leaks.check_program, (dynrun, program, harness.is_real(dynrun))) for program in leaks.PROGRAMS]
    wanted = [part for part in options.filter.split(",") if part]
    failed = passed = 0
    for name, check, args in checks:
        if wanted and not any(part in name for part in wanted):
            continue
        began = time.time()
        answer = harness.in_child(check, *args)
        problems = [answer["error"]] if "error" in answer else answer["value"]
        bad = any(not problem.startswith("note") for problem in problems)
        failed, passed = failed + bad, passed + (not bad)
        print(f"{'FAIL' if bad else 'ok  '} {name} ({time.time() - began:.1f} s)", flush=True)
        for problem in problems:
            print("     " + problem.replace("\n", "\n     "), flush=True)
    print(f"{passed} passed, {failed} failed, 0 skipped")
    return 1 if failed else 0


sys.exit(main())
