#!/usr/bin/env python3
"""Runs random programs under dynrun and compares all they do with the same program run with dynrun switched off.

`run.py --count 2000 --seed 1000`, `--seconds 120`, `--modes plain,extern+verify`; `run.py --print SEED` shows one program, `--shrink`
makes the first failing ones small. Compared are values bit for bit (with compiled kernels: within a tolerance), types, strides, aliasing,
the autograd graph, changed objects, printed text, exceptions with their traceback lines, and random streams.
"""

import argparse
import ast
import collections
import json
import os
import pathlib
import random
import subprocess
import sys
import time

import generate

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
# What a batch of programs runs under, and how often. With `extern` nothing is compiled and results are equal to the last bit.
MODES = {"extern": (6, ["--stress=extern"]), "plain": (4, []), "extern+verify": (2, ["--stress=extern", "--verify"]), "extern+guards": (2, ["--stress=extern,guards"]),
         "extern+drop": (2, ["--stress=extern,drop"]), "extern+first": (2, ["--stress=extern,first"]), "extern+break": (1, ["--stress=extern,break"]),
         "verify": (1, ["--verify"]), "extern+all": (2, ["--stress=extern", "--vm=all"]), "handover": (1, ["--stress=extern,handover", "--vm=all"]),
         "extern+open": (4, ["--stress=extern", "--dynamic=on"]), "open": (2, ["--dynamic=on"]), "open+verify": (1, ["--dynamic=on", "--verify"]),
         "open+first": (2, ["--dynamic=on", "--stress=first"]),
         "extern+closed": (1, ["--stress=extern", "--dynamic=off"])}
BATCH, CHILD = 1000, 100  # programs in one mode, programs in one forked child
WORKERS, WORKER_LIFE = 4, 20000  # processes that wait for the next batch of their mode, programs that one of them runs


class Worker:
    """A dynrun process that has torch loaded and runs programs in forked children."""

    def __init__(self, executable, mode):
        self.mode, self.programs = mode, 0
        read_end, write_end = os.pipe()
        environment = dict(os.environ, PYTHONHASHSEED="0", OMP_NUM_THREADS="1", PYTHONDONTWRITEBYTECODE="1")
        environment["PYTORCH_NVML_BASED_CUDA_CHECK"] = "1"  # asking whether there is a GPU must not wake it
        environment.pop("DYNRUN_OPTIONS", None)  # ours, when dynrun runs this program too
        exact = "exact" if "extern" in mode or mode == "handover" else "close"
        self.process = subprocess.Popen([executable, *MODES[mode][1], "--cache=off", "-W", "always", str(HERE / "worker.py"), str(write_end), exact], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL,
                                        stderr=subprocess.PIPE, pass_fds=[write_end], env=environment, text=True)
        os.close(write_end)
        self.results = os.fdopen(read_end)

    def run(self, job):
        """The answers to one job, as they come."""
        self.process.stdin.write(json.dumps(job) + "\n")
        self.process.stdin.flush()
        for line in self.results:
            answer = json.loads(line)
            if "done" in answer:
                return
            yield answer
        raise RuntimeError(f"the worker died: {self.process.stderr.read()[-500:]}")

    def close(self):
        self.process.stdin.close()
        self.results.close()
        self.process.kill()
        self.process.wait()


class Workers:
    """The processes that are there, one a mode; loading torch costs as much as some hundred programs."""

    def __init__(self, executable):
        self.executable, self.by_mode = executable, {}

    def get(self, mode):
        worker = self.by_mode.pop(mode, None)
        if worker is not None and worker.programs > WORKER_LIFE:
            worker.close()
            worker = None
        self.by_mode[mode] = worker or Worker(self.executable, mode)  # the one used last stands last
        while len(self.by_mode) > WORKERS:
            self.by_mode.pop(next(iter(self.by_mode))).close()
        return self.by_mode[mode]

    def close(self):
        for worker in self.by_mode.values():
            worker.close()


class Smaller(ast.NodeTransformer):
    """Does one change, the `number`th, to the statements of a program: drops one, or puts a compound's body in its place."""

    def __init__(self, number):
        self.left, self.done = number, False

    def shorten(self, body):
        out = []
        for statement in body:
            bodies = [part for name in ("body", "orelse", "finalbody") for part in [getattr(statement, name, None)] if isinstance(part, list)]
            choices = [[]] + [part for part in bodies if part and not isinstance(statement, (ast.FunctionDef, ast.ClassDef))]
            for choice in choices:
                if self.left == 0 and not self.done:
                    self.done = True
                    statement = choice
                    break
                self.left -= 1
            if isinstance(statement, list):
                out += statement
                continue
            out.append(self.visit(statement))
        return out

    def generic_visit(self, node):
        for name in ("body", "orelse", "finalbody"):
            body = getattr(node, name, None)
            if isinstance(body, list):
                shorter = self.shorten(body)
                setattr(node, name, shorter or ([ast.Pass()] if name == "body" and not isinstance(node, ast.Module) else []))
        for handler in getattr(node, "handlers", []):
            self.generic_visit(handler)
        for case in getattr(node, "cases", []):
            self.generic_visit(case)
        return node


def bodies(tree):
    """Every list of statements in a program, the long ones first."""
    found = [body for node in ast.walk(tree) for name in ("body", "orelse", "finalbody") for body in [getattr(node, name, None)] if isinstance(body, list)]
    return sorted(found, key=len, reverse=True)


def without_many(source):
    """Programs with several statements less: halves, quarters and so on of each list of statements."""
    for number, body in enumerate(bodies(ast.parse(source))):
        size = len(body) // 2
        while size > 1:
            for start in range(0, len(body), size):
                tree = ast.parse(source)
                part = bodies(tree)[number]
                part[start:start + size] = [ast.Pass()] if len(part) <= size else []
                yield ast.unparse(ast.fix_missing_locations(tree)) + "\n"
            size //= 2


def attempts(source):
    """Programs with less, the much smaller ones first."""
    for text in without_many(source):
        try:
            compile(text, "attempt", "exec")
        except (SyntaxError, ValueError):
            continue
        yield text
    number = 0
    while True:
        change = Smaller(number)
        tree = change.visit(ast.parse(source))
        if not change.done:
            return
        number += 1
        try:
            text = ast.unparse(ast.fix_missing_locations(tree)) + "\n"
            compile(text, "attempt", "exec")
        except (SyntaxError, ValueError):
            continue
        if text != source:
            yield text


def shrink(worker, source, seconds):
    """The smallest program found in the time that still fails."""
    end = time.monotonic() + seconds

    def fails(text):
        return any(answer["problem"] for answer in list(worker.run({"source": text})))

    tried = set()
    changed = True
    while changed and time.monotonic() < end:
        changed = False
        for text in attempts(source):
            if time.monotonic() >= end:
                break
            if text in tried:
                continue
            tried.add(text)
            if fails(text):
                source, changed = text, True
                break
    return source


class Total:
    def __init__(self):
        self.programs = self.replayed = self.replays = self.captured = self.slow = 0
        self.failures = []
        self.modes = collections.Counter()

    def add(self, mode, answer):
        self.programs += 1
        self.modes[mode] += 1
        self.slow += answer.get("slow", False) and not answer["problem"]
        self.replayed += answer["replays"] > 0
        self.replays += answer["replays"]
        self.captured += answer["captured"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False)
    parser.add_argument("--count", type=int, help="how many programs")
    parser.add_argument("--seconds", type=float, help="how long")
    parser.add_argument("--seed", type=int, help="the first seed; by default drawn from the time")
    parser.add_argument("--modes", default="", help=f"of {', '.join(MODES)}; drawn at random otherwise")
    parser.add_argument("--print", type=int, dest="shown", help="print the program of this seed")
    parser.add_argument("--source", help="run the program in this file in each mode")
    parser.add_argument("--dynrun", default=os.environ.get("DYNRUN", str(ROOT / "build" / "release" / "dynrun")))
    parser.add_argument("--shrink", type=float, default=0, metavar="SECONDS", help="make each of the first three failures small, this long")
    parser.add_argument("--keep", help="write failing programs into this folder")
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    parser.add_argument("--forget", choices=["yes", "no"], help="whether dynrun forgets its segments after each program; by default drawn for each hundred programs")
    parser.add_argument("--device", default="cpu", choices=["cpu", "cuda"], help="where the programs' tensors lie")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--filter", default="", help="unused")
    options = parser.parse_args()
    os.environ["DYNRUN_FUZZ_DEVICE"] = options.device
    if sys.version_info[:2] != (3, 12):
        # Which programs compile decides what a seed stands for: the same Python as the workers'.
        os.execv(options.dynrun, [options.dynrun, "--vm=off", *sys.argv])
    if options.shown is not None:
        print(generate.program(options.shown), end="")
        return 0
    names = [name for name in options.modes.split(",") if name] or None
    if options.source:
        return run_source(options, names or list(MODES))
    seconds = options.seconds if options.seconds is not None else None if options.count else 10 if options.quick else 120
    first = options.seed if options.seed is not None else int(time.time()) * 1000
    count = options.count if options.count else 10**9
    print(f"seed {first}", flush=True)
    began, total = time.monotonic(), Total()
    if options.jobs > 1:
        return run_many(options, first, count, seconds)
    draw = random.Random(first)
    seed, shrunk, workers = first, 0, Workers(options.dynrun)
    while seed < first + count and (seconds is None or time.monotonic() - began < seconds):
        mode = draw.choice(names) if names else draw.choices(list(MODES), [weight for weight, _ in MODES.values()])[0]
        worker = workers.get(mode)
        batch_end = min(seed + BATCH, first + count)
        batch_began = time.monotonic()
        while seed < batch_end and (seconds is None or time.monotonic() - began < seconds):
            seeds = list(range(seed, min(seed + CHILD, batch_end)))
            seed = seeds[-1] + 1
            worker.programs += len(seeds)
            failed = []
            forget = draw.random() < 0.7 if options.forget is None else options.forget == "yes"
            for answer in worker.run({"seeds": seeds, "forget": forget}):
                total.add(mode, answer)
                if answer["problem"]:
                    failed.append(answer)
            for answer in failed:
                report(options, worker, answer, total, f"--seed={seeds[0]} --count={len(seeds)} --forget={'yes' if forget else 'no'}")
                if options.shrink and shrunk < 3:
                    shrunk += 1
                    print(shrink(worker, generate.program(answer["seed"]), options.shrink), flush=True)
            if time.monotonic() - batch_began > 15 and seconds is not None:
                break
        if options.count and options.count > BATCH:
            print(f"  to seed {seed}: {total.programs} programs, {len(total.failures)} failed, {total.programs / (time.monotonic() - began):.0f} a second", flush=True)
    workers.close()
    elapsed = time.monotonic() - began
    modes = ", ".join(f"{name} {number}" for name, number in total.modes.most_common())
    print(f"seeds {first} to {seed - 1} in {elapsed:.0f} s ({total.programs / elapsed:.0f} a second): {modes}")
    print(f"replays in {100 * total.replayed / max(total.programs, 1):.0f} % of the programs, {total.replays} in all; {total.captured} operators captured")
    print(f"{total.programs - len(total.failures) - total.slow} passed, {len(total.failures)} failed, {total.slow} skipped")
    if total.programs >= CHILD and not total.replays:
        print("nothing was replayed: this run says nothing (do the programs raise before they begin?)")
        return 1
    return 1 if total.failures else 0


def report(options, worker, answer, total, job):
    """Prints and keeps a failure. What passes when it is run by itself depends on the programs before it in its child: those of `job`."""
    seed = answer["seed"]
    again = next(iter(list(worker.run({"seeds": [seed]}))))
    alone = again["problem"]
    if again.get("undefined") or (alone and "without dynrun" in alone):
        total.slow += 1  # libtorch overwrites memory; nothing has been run under dynrun in that process
        print(f"passed over: seed {seed}: {alone or 'it loses the device'}"[:120], flush=True)
        return
    total.failures.append((seed, worker.mode, answer["problem"]))
    print(f"FAIL seed {seed} under {worker.mode}{'' if alone else f' (not by itself, but with {job})'}: {answer['problem'][:700]}", flush=True)
    if options.keep:
        folder = pathlib.Path(options.keep)
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"seed_{seed}.py").write_text(generate.program(seed))


def run_source(options, names):
    source, failed = pathlib.Path(options.source).read_text(), 0
    for mode in names:
        worker = Worker(options.dynrun, mode)
        answer = next(iter(list(worker.run({"source": source}))))
        print(f"{mode}: {answer['problem'] or 'equal'} ({answer['replays']} replays, {answer['captured']} operators captured)")
        failed += answer["problem"] is not None
        if failed and options.shrink:
            print(shrink(worker, source, options.shrink))
        worker.close()
        if failed and options.shrink:
            break
    print(f"{len(names) - failed} passed, {failed} failed, 0 skipped")
    return 1 if failed else 0


def run_many(options, first, count, seconds):
    """Several processes, each on seeds of its own."""
    share = count // options.jobs if options.count else 10**7
    children = []
    for job in range(options.jobs):
        command = [options.dynrun, "--vm=off", str(HERE / "run.py"), f"--seed={first + job * share}", f"--modes={options.modes}", f"--dynrun={options.dynrun}", f"--shrink={options.shrink}",
                   f"--device={options.device}"]
        command += [f"--forget={options.forget}"] if options.forget else []
        command += [f"--count={share}"] if options.count else [f"--seconds={seconds}"]
        command += [f"--keep={options.keep}"] if options.keep else []
        children.append(subprocess.Popen(command))
    return max(child.wait() for child in children)


if __name__ == "__main__":
    sys.exit(main())
