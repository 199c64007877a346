"""tools/bench kernels: fused kernels on a GPU beside a copy and torch.compile, in turns; or, without a GPU, what assembling them says."""

import functools
import os
import pathlib
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

import children
import harness
from gpu_bench import has_gpu, start_peers, through_c

TURNS = 5


def assembler():
    """The path of ptxas: the toolkit's, or that of the compiler package that comes with torch."""
    found = shutil.which("ptxas") or next((path for path in ("/usr/local/cuda/bin/ptxas",) if os.path.exists(path)), None)
    if found:
        return found
    import triton

    return str(pathlib.Path(triton.__file__).parent / "backends" / "nvidia" / "bin" / "ptxas")


def modules_of(script, executable, target=80):
    """The PTX of all kernels that a script's graphs would have on a GPU of compute capability `target` / 10."""
    environment = dict(os.environ, DYNRUN_PTX_TARGET=str(target))
    done = subprocess.run([executable, "--dump=ptx", *script], capture_output=True, text=True, check=False, env=environment)
    if done.returncode:
        raise RuntimeError(done.stderr[-2000:])
    parts = re.split(r"^--- (\w+)\n", done.stderr, flags=re.MULTILINE)
    return [text for stage, text in zip(parts[1::2], parts[2::2]) if stage == "ptx"]


ENTRY = re.compile(r"Compiling entry function '(\w+)' for '(\w+)'.*?(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads.*?Used (\d+) registers", re.DOTALL)


def assemble(modules, architecture):
    """Assembles PTX; gives (kernel, registers, bytes spilled) for each kernel."""
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for number, text in enumerate(modules):
            file = pathlib.Path(folder) / f"{number}.ptx"
            file.write_text(text)
            done = subprocess.run([assembler(), "-v", f"-arch={architecture}", str(file), "-o", os.devnull], capture_output=True, text=True, check=False)
            if done.returncode:
                raise RuntimeError(done.stderr[-2000:])
            rows += [(name, int(registers), int(stores) + int(loads)) for name, _, _, stores, loads, registers in ENTRY.findall(done.stderr + done.stdout)]
    return rows


def spilling_pointwise(rows):
    """Of what `assemble` gives, the pointwise kernels that keep registers in memory. The form of a kernel is a part of its name."""
    return [row for row in rows if row[2] and ("_flat_" in row[0] or "_tiles_" in row[0])]


def print_assembled(options):
    """`tools/bench kernels --device cuda --assemble-only`: needs no GPU."""
    import zoo

    executable = os.environ.get("DYNRUN", str(harness.ROOT / "build" / "release" / "dynrun"))
    scripts = [("corpus", [str(harness.ROOT / "tests" / "gpu" / "corpus.py"), "cpu"])]
    scripts += [(entry.name, [str(harness.ROOT / "tests" / "gpu" / "model.py"), entry.name]) for entry in zoo.select(options.models)]
    failed = 0
    for name, script in scripts:
        modules = modules_of(script, executable)
        for architecture in ("sm_80", "sm_90", "sm_100"):
            rows = assemble(modules, architecture)
            spilled = spilling_pointwise(rows)
            failed += bool(spilled)
            print(f"{name:<22} {architecture:<7} {len(rows):>4} kernels, at most {max((row[1] for row in rows), default=0):>3} registers, "
                  f"{sum(row[2] > 0 for row in rows)} with spills, {len(spilled)} of them pointwise", flush=True)
    print(f"{len(scripts)} scripts, {failed} failed")
    return 1 if failed else 0


def kernel_cases():
    import torch

    functional = torch.nn.functional
    return {
        "pointwise": (lambda a, b: torch.erf(a * b + 1), 2, 3),
        "softmax": (lambda a: torch.softmax(a, -1), 1, 2),
        "layer_norm": (lambda a: functional.layer_norm(a, a.shape[-1:]), 1, 2),
        "softmax + layer_norm": (lambda a: functional.layer_norm(torch.softmax(a, -1), a.shape[-1:]), 1, 2),
        "sum of a transposed": (lambda a, b: torch.relu(a.view(-1, 512, 1024).transpose(1, 2) + b.view(-1, 1024, 512)), 2, 3),
        "layer_norm across": (lambda a: functional.layer_norm(a.view(-1, 1024, 512).transpose(1, 2), (1024,)), 1, 2),
    }


def event_milliseconds(call, repeats=50, rounds=3):
    """The median of some rounds of calls behind each other, once the clocks are up."""
    import torch

    call = through_c(call)
    times = []
    began = time.perf_counter()
    while time.perf_counter() - began < 0.05:
        call()
        torch.cuda.synchronize()
    for _ in range(rounds):
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        call()
        begin.record()
        for _ in range(repeats):
            call()
        end.record()
        torch.cuda.synchronize()
        times.append(begin.elapsed_time(end) / repeats)
    return statistics.median(times)


def kernel_steps(mebibytes, compile_with, off):
    """A child: answers names with terabytes a second of a copy (eager's) or a case, arrays of so many MiB read and written once."""
    import torch

    count = mebibytes * (1 << 20) // 4
    with torch.no_grad():
        arrays = [torch.randn(count // 1024, 1024, device="cuda") for _ in range(3)]
        sides = {"copy": (off(lambda: arrays[2].copy_(arrays[0])), 2)}
        for name, (function, inputs, moved) in kernel_cases().items():
            sides[name] = (functools.partial(compile_with(function), *arrays[:inputs]), moved)
        for call, _ in sides.values():
            for _ in range(4):
                call()
        side = yield
        while True:
            call, moved = sides[side]
            side = yield moved * count * 4 / event_milliseconds(call) / 1e9


def run_kernels(options, dynrun):
    if options.assemble_only:
        return print_assembled(options)
    if not has_gpu():
        sys.exit("tools/bench kernels: there is no GPU that torch can use; --assemble-only needs none")
    if options.peer_child:
        import torch

        return children.serve(kernel_steps(int(options.models), torch.compile, lambda call: call), sys.stdin, children.quiet())
    for mebibytes in (1024, 256, 64):
        sides = {"dynrun": children.forked(kernel_steps, mebibytes, dynrun.compile, lambda call: harness.eagerly(dynrun, call))}
        if options.peers:
            sides["torch.compile"] = start_peers(str(mebibytes), ("compile",), 1, options)
        for child in sides.values():
            child.answer()
        for name in ("copy", *kernel_cases()):
            turns = [{side: child.ask(name)["value"] for side, child in sides.items()} for _ in range(TURNS)]
            rates = {side: statistics.median(turn[side] for turn in turns) for side in sides}
            if name == "copy":
                copy = rates["dynrun"]
                print(f"{mebibytes} MiB arrays: copy {copy:.2f} TB/s")
                continue
            print(f"  {name:<22} {rates['dynrun']:.2f} TB/s, {rates['dynrun'] / copy:.2f} of the copy" +
                  (f"; torch.compile {rates['torch.compile']:.2f} TB/s, {rates['dynrun'] / rates['torch.compile']:.3f}x" if options.peers else ""), flush=True)
        for child in sides.values():
            child.end()
    return 0
