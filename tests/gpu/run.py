#!/usr/bin/env python3
"""Tests the kernels for GPUs. Everywhere: their PTX assembles for three architectures, pointwise kernels spill no register.
Programs that check values do there what they do in eager. On a machine with a GPU: the corpus gives what eager gives; with two, programs
that use both do.

    tests/gpu/run.py [--filter TEXT] [--quick]
"""

import argparse
import os
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path[:0] = [str(ROOT / "tests" / "models"), str(ROOT / "tools" / "lib")]

import kernel_bench  # noqa: E402

DYNRUN = os.environ.get("DYNRUN", str(ROOT / "build" / "release" / "dynrun"))
CORPUS = str(ROOT / "tests" / "gpu" / "corpus.py")
ARCHITECTURES = {80: ("sm_80", "sm_90", "sm_100"), 90: ("sm_90", "sm_100")}  # by what the code is for
MODELS = ("resnet18", "bert", "llama")


def assembles(script, target):
    modules = kernel_bench.modules_of(script, DYNRUN, target)
    assert modules, "no kernel was made"
    for architecture in ARCHITECTURES[target]:
        rows = kernel_bench.assemble(modules, architecture)
        assert len(rows) == sum(text.count(".visible .entry") for text in modules), f"{architecture}: {len(rows)} kernels"
        spilled = kernel_bench.spilling_pointwise(rows)
        assert not spilled, f"{architecture}: {spilled} spill"


def assembles_fills():
    """Of the kernel that stands for memsets."""
    text = re.search(r'R"\((.*?)\)"', (ROOT / "runtime" / "cuda" / "graph_memsets.cpp").read_text(), re.DOTALL)[1].lstrip()
    for architecture in ARCHITECTURES[80]:
        rows = kernel_bench.assemble([text], architecture)
        assert sorted(name for name, _, spilled in rows if not spilled) == ["fill"], rows


def outcome(script, *arguments):
    """How many of a script's cases passed, failed and were skipped; what it wrote where it says no count or one failed is printed."""
    done = subprocess.run([DYNRUN, str(ROOT / "tests" / "gpu" / script), *arguments], capture_output=True, text=True, check=False)
    counts = re.search(r"(\d+) passed, (\d+) failed(?:, (\d+) skipped)?\s*$", done.stdout)
    if not counts or int(counts[2]):
        print(done.stdout + done.stderr, end="")
    return [int(count or 0) for count in counts.groups()] if counts else [0, 1, 0]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--filter", default="")
    parser.add_argument("--quick", action="store_true")
    options = parser.parse_args()
    cases = {"assemble corpus": ([CORPUS, "cpu", "float32" if options.quick else ""], 80), "assemble corpus for Hopper": ([CORPUS, "cpu", "bfloat16"], 90)}
    cases["assemble fills"] = None
    cases |= {f"assemble {name}": ([str(ROOT / "tests" / "gpu" / "model.py"), name], 80) for name in (() if options.quick else MODELS)}
    passed = failed = skipped = 0
    for name, case in cases.items():
        if options.filter not in name:
            continue
        try:
            assembles(*case) if case else assembles_fills()
            passed += 1
        except (AssertionError, RuntimeError) as error:
            failed += 1
            print(f"FAIL {name}: {error}")
    scripts = [(script, "cuda" if kernel_bench.has_gpu() else "cpu") for script in ("checks.py", "capture.py")]
    if kernel_bench.has_gpu():
        scripts += [("corpus.py", "cuda", options.filter), ("devices.py",)]
    else:
        skipped = 1
        print("skip: no GPU for the corpus")
    for script in scripts:
        good, bad, left = outcome(*script)
        passed, failed, skipped = passed + good, failed + bad, skipped + left
    print(f"{passed} passed, {failed} failed, {skipped} skipped")
    return failed != 0


if __name__ == "__main__":
    sys.exit(main())
