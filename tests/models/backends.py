#!/usr/bin/env python3
"""Tests the back ends and dynrun.export on the model list: eager's results on inputs that were not recorded.

Run as `dynrun tests/models/backends.py [--filter NAMES] [--backends eager,inductor,export]`; each model and back end is a forked
child. inductor takes half a minute a model, so it is left out unless it is named.
"""

import argparse
import pathlib
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

import harness  # noqa: E402

dynrun = harness.under_dynrun(__file__)

import torch  # noqa: E402
import zoo  # noqa: E402


def compare(outputs, expected, exact):
    found = [zoo.compare(got, right, truth) for got, right, truth in zip(outputs, expected, exact)]
    return [text for text in found if text and not text.startswith("note")]


def check_backend(entry, backend):
    """One graph, shown once, and eager's results on four inputs."""
    torch.set_num_threads(1)
    seen = []

    def counting(module, inputs):
        seen.append(module)
        return module.forward

    with torch.no_grad():
        model, inputs = entry.make(small=True)
        calls = [harness.thunk(model, *inputs(seed)) for seed in range(4)]
        exact = [harness.thunk(zoo.in_double, (model, *inputs(seed))) for seed in range(4)]
        expected = [harness.eagerly(dynrun, call)() for call in calls]
        made = dynrun.compile(model, backend=counting if backend == "eager" else backend)
        outputs = [made(*inputs(seed)[0], **inputs(seed)[1]) for seed in range(4)]
        problems = harness.eagerly(dynrun, harness.thunk(compare, (outputs, expected, exact)))()
        if backend == "eager":
            if len(seen) != 1:
                problems.append(f"{len(seen)} graphs")
            problems += harness.eagerly(dynrun, harness.thunk(check_module, (seen,)))()
    return problems


def check_module(seen):
    """What people do with a graph: print it, compile its Python code anew."""
    problems = []
    for module in seen:
        text = module.print_readable(print_output=False)
        module.recompile()
        if "# File: " not in text or not all("val" in node.meta for node in module.graph.nodes if node.op == "placeholder"):
            problems.append("a graph without source lines or metadata")
    return problems


def check_export(entry):
    """The exported graph gives eager's results on new inputs."""
    torch.set_num_threads(1)
    with torch.no_grad():
        model, inputs = entry.make(small=True)
        with dynrun.disable():
            exact = [zoo.in_double(model, *inputs(seed)) for seed in range(1, 4)]
            expected = [model(*inputs(seed)[0], **inputs(seed)[1]) for seed in range(1, 4)]
        args, kwargs = inputs(0)
        graph = dynrun.export(model, *args, **kwargs)
        with dynrun.disable():
            outputs = [graph(*inputs(seed)[0], **inputs(seed)[1]) for seed in range(1, 4)]
            return [text for text in (zoo.compare(got, right, lambda truth=truth: truth) for got, right, truth in zip(outputs, expected, exact)) if text and not text.startswith("note")]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--filter", default="", help="only models whose name contains one of these (comma)")
    parser.add_argument("--backends", default="eager,export")
    options = parser.parse_args()
    wanted = [part for part in options.filter.split(",") if part]
    passed = failed = 0
    for entry in zoo.MODELS:
        if wanted and not any(part in entry.name for part in wanted):
            continue
        for backend in options.backends.split(","):
            answer = harness.in_child(check_export, entry) if backend == "export" else harness.in_child(check_backend, entry, backend)
            problems = [answer["error"]] if "error" in answer else answer["value"]
            passed, failed = passed + (not problems), failed + bool(problems)
            if problems:
                print(f"FAIL {entry.name} {backend}: " + "\n  ".join(problems), flush=True)
    print(f"{passed} passed, {failed} failed, 0 skipped")
    return failed != 0


if __name__ == "__main__":
    sys.exit(main())
