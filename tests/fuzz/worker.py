"""Runs random programs in forked children, each program once with dynrun switched off and once with it, and compares what both did.

Started by run.py under dynrun. Reads jobs from stdin, one JSON line each: {"seeds": [...]} or {"source": text}; writes one JSON line a
program to the file descriptor named in the first argument. The second argument says whether floats must be equal to the last bit.
"""

import contextlib
import faulthandler
import gc
import io
import json
import logging
import math
import os
import random
import re
import resource
import signal
import struct
import sys
import time
import warnings

import common
import devices
import dynrun
import generate
import torch
import torch.utils.checkpoint

NUMBER = re.compile(r"-?\d+\.\d*(?:e[+-]?\d+)?|\d+e[+-]?\d+|nan|-?inf")
EAGER_LIMIT, TIMES = 5, 10  # seconds of processor time of the run without dynrun, and how many times that (plus as much again) the other run may take


class Output:
    """A file in memory behind a file descriptor."""

    def __init__(self, descriptor):
        self.file = os.memfd_create("output")
        os.dup2(self.file, descriptor)

    def take(self):
        size = os.lseek(self.file, 0, os.SEEK_CUR)
        text = os.pread(self.file, size, 0).decode("utf-8", "replace")
        os.lseek(self.file, 0, os.SEEK_SET)
        os.ftruncate(self.file, 0)
        return text


def near(a, b, tolerance=2e-3):
    if a == b or (math.isnan(a) and math.isnan(b)):
        return True
    return abs(a - b) <= tolerance * max(abs(a), abs(b), 0.05)


def texts_differ(a, b, exact):
    if a == b:
        return False
    if exact:
        return True
    numbers_a, numbers_b = NUMBER.findall(a), NUMBER.findall(b)
    return NUMBER.sub("#", a) != NUMBER.sub("#", b) or not all(near(float(p), float(q)) for p, q in zip(numbers_a, numbers_b))


def differs(a, b, exact, path=""):
    """Where two pictures differ first, as text, or None."""
    if type(a) is not type(b):
        return f"{path}: {a!r:.300} instead of {b!r:.300}"
    if isinstance(a, tuple):
        if a == b:
            return None  # pictures name their types: what is equal is the same
        if len(a) == 2 and a[0] in ("f4", "f8") and isinstance(a[1], bytes) and a[0] == b[0]:
            if not exact and len(a[1]) == len(b[1]):
                ours, right = unpack(a), unpack(b)
                scale = max([abs(value) for value in right if math.isfinite(value)], default=0.0)
                if all(near(p, q) or abs(p - q) <= 1e-4 * scale for p, q in zip(ours, right)):
                    return None
            return f"{path}: values {numbers(a)} instead of {numbers(b)}"
        if len(a) != len(b):
            return f"{path}: {a!r:.400} instead of {b!r:.400}"
        for index, (left, right) in enumerate(zip(a, b)):
            found = differs(left, right, exact, f"{path}.{a[0] if index and isinstance(a[0], str) else ''}{index}")
            if found:
                return found
        return None
    if isinstance(a, float):
        same = a == b or (math.isnan(a) and math.isnan(b)) if exact else near(a, b)
    elif isinstance(a, str):
        same = not texts_differ(a, b, exact)
    else:
        same = a == b
    return None if same else f"{path}: {a!r:.300} instead of {b!r:.300}"


def unpack(content):
    kind, data = content
    return struct.unpack(f"{len(data) // 4}f" if kind == "f4" else f"{len(data) // 8}d", data)


def numbers(content):
    return [round(value, 6) for value in unpack(content)][:12]


def settle():
    """What a program may have left behind in torch and in the interpreter."""
    torch.set_grad_enabled(True)
    torch.set_default_dtype(torch.float32)
    (torch.default_generator if devices.DEVICE == "cpu" else torch).manual_seed(0)
    random.seed(0)
    logging.getLogger().handlers.clear()
    warnings.simplefilter("always")


def run_once(code, outputs):
    """Everything one run of a program shows: notes, text on stdout and stderr, how it ended."""
    common.NOTES = []
    settle()
    space = {"__name__": "__main__", "__builtins__": __builtins__}
    try:
        exec(code, space)
        end = None
    except BaseException as error:
        with dynrun.disable():
            end = devices.LOST if devices.is_lost() else common.Picture().exception(error)
        del error
    space.clear()
    with dynrun.disable():
        gc.collect()  # what ends with the program ends here, on both sides
    sys.stdout.flush()
    sys.stderr.flush()
    if devices.is_lost():
        return common.NOTES, devices.LOST, *[output.take() for output in outputs], 0
    settle()
    random_state = torch.get_rng_state().sum().item()
    return common.NOTES, end, *[output.take() for output in outputs], random_state


def compare(expected, actual, exact):
    for index, (ours, right) in enumerate(zip(actual[0], expected[0])):
        found = differs(ours, right, exact, f"note {index}")
        if found:
            return found
    if len(expected[0]) != len(actual[0]):
        return f"{len(actual[0])} notes instead of {len(expected[0])}"
    found = differs(actual[1], expected[1], exact, "end")
    if found:
        return found
    for name, ours, right in (("stdout", actual[2], expected[2]), ("stderr", actual[3], expected[3])):
        if texts_differ(ours, right, exact):
            at = next((i for i, (p, q) in enumerate(zip(ours, right)) if p != q), min(len(ours), len(right)))
            return f"{name} at {at}: ...{ours[max(0, at - 60):at + 160]!r} instead of ...{right[max(0, at - 60):at + 160]!r}"
    return None


def is_sensitive(code, outputs):
    """Whether inputs that differ in the fifth digit give other results: what rounding does to such a program proves nothing."""
    with dynrun.disable():
        expected = run_once(code, outputs)
        common.NUDGE = 1e-5
        nudged = run_once(code, outputs)
        common.NUDGE = 0.0
        return compare(expected, nudged, False) is not None


def is_unsteady(code, outputs):
    """Whether a program does not even do twice the same without dynrun: atomic additions on a GPU come in any order."""
    with dynrun.disable():
        expected = run_once(code, outputs)
        return any(compare(expected, run_once(code, outputs), True) is not None for _ in range(2))


def run_program(code, outputs, exact, between=lambda seconds: None):
    began = time.process_time()
    common.PLACES.clear()
    runs = []
    for side in (dynrun.disable(), contextlib.nullcontext()):  # one line calls both: it is shown in stacks
        with side:
            runs.append(run_once(code, outputs))
        if len(runs) == 2:
            break
        middle = time.process_time()
        between(middle - began)
        if (runs[0][1] is not None and runs[0][1][0] == "Undefined") or runs[0][1] == devices.LOST:
            return {"problem": None, "slow": True, "undefined": True, "replays": 0, "segments": 0, "captured": 0, "raised": 0, "seconds": [middle - began, 0]}
        dynrun.reset_stats()
    expected, actual = runs
    stats = dynrun.stats()
    with dynrun.disable():
        problem = compare(expected, actual, exact)
    if problem and runs[1][1] != devices.LOST and (is_sensitive(code, outputs) if not exact else devices.DEVICE != "cpu" and is_unsteady(code, outputs)):
        return {"problem": None, "sensitive": problem, "slow": True, "replays": 0, "segments": 0, "captured": 0, "raised": 0, "seconds": [middle - began, 0]}
    return {"problem": problem, "replays": stats["segment_replays"], "segments": stats["segments_compiled"], "captured": stats["operators_captured"],
            "raised": sum(isinstance(note[0], str) for note in expected[0]) / max(len(expected[0]), 1), "seconds": [middle - began, time.process_time() - middle]}


def child(job, results, exact):
    """The forked process: no return. Says which program it starts, so that a crash has a name."""
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    outputs = Output(1), Output(2)
    stream = os.fdopen(results, "w")
    if "source" in job:
        todo = [(None, job["source"])]
    else:
        todo = [(seed, None) for seed in job["seeds"]]
    for seed, source in todo:
        print(json.dumps({"start": seed}), file=stream, flush=True)
        signal.setitimer(signal.ITIMER_VIRTUAL, EAGER_LIMIT)
        signal.alarm(600)

        def between(seconds, seed=seed):
            print(json.dumps({"eager": seed}), file=stream, flush=True)
            signal.setitimer(signal.ITIMER_VIRTUAL, EAGER_LIMIT + TIMES * seconds)

        with dynrun.disable():
            name = f"seed_{seed}.py"
            code = devices.compiled(source, name) if source is not None else generate.compiled(seed, name)[1]
        if job.get("ask"):
            print(json.dumps({"sensitive": is_sensitive(code, outputs)}), file=stream, flush=True)
            break
        answer = run_program(code, outputs, exact, between)
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.alarm(0)
        print(json.dumps({"seed": seed, **answer}), file=stream, flush=True)
        if answer.get("undefined"):
            break  # memory may be overwritten: a new process goes on
        if job.get("forget", True):
            dynrun.reset()
    os._exit(0)


def died_of_rounding(job, seed, status, exact):
    """Whether --verify ended a program that inputs a little different would have ended otherwise. Asks a process of its own."""
    if exact or os.waitstatus_to_exitcode(status) != -signal.SIGABRT:
        return False
    read_end, write_end = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(read_end)
        try:
            child({**job, **({"seeds": [seed]} if "seeds" in job else {}), "ask": True}, write_end, exact)
        finally:
            os._exit(71)
    os.close(write_end)
    with os.fdopen(read_end) as stream:
        sensitive = any(json.loads(line).get("sensitive") for line in stream)
    os.waitpid(pid, 0)
    return sensitive


def serve(job, out, exact):
    """One job: children until every seed has an answer; a dead child is an answer too."""
    left = list(job.get("seeds", [None]))
    while left:
        read_end, write_end = os.pipe()
        trace = os.memfd_create("trace")
        pid = os.fork()
        if pid == 0:
            os.close(read_end)
            faulthandler.enable(trace, all_threads=False)
            try:
                child({**job, "seeds": left} if "seeds" in job else job, write_end, exact)
            finally:
                os._exit(71)
        os.close(write_end)
        started, eager_done = left[0], False
        with os.fdopen(read_end) as stream:
            for line in stream:
                answer = json.loads(line)
                if "start" in answer:
                    started, eager_done = answer["start"], False
                elif "eager" in answer:
                    eager_done = True
                else:
                    left.remove(answer["seed"])
                    print(line, end="", file=out, flush=True)
        _, status = os.waitpid(pid, 0)
        lines = re.findall(r'File "(?:[^"]*/)?([^/"]+)", line (\d+) in (\w+)', os.pread(trace, 4000, 0).decode("utf-8", "replace"))
        where = "".join(f" < {file}:{line} {function}" for file, line, function in lines[:6])
        os.close(trace)
        if left and started not in left and status:
            print(json.dumps({"seed": started, "problem": f"the process died after this program: {os.waitstatus_to_exitcode(status)}{where}", "replays": 0, "segments": 0, "captured": 0, "raised": 0, "seconds": [0, 0]}), file=out, flush=True)
        if started in left:
            code = os.waitstatus_to_exitcode(status)
            slow = code in (-signal.SIGALRM, -signal.SIGVTALRM)
            # A program that takes too long by itself says nothing of dynrun: passed over, and counted.
            slow = slow or (eager_done and died_of_rounding(job, started, status, exact))
            what = None if slow and (not eager_done or code == -signal.SIGABRT) else "ran too long" if slow else f"the process died: {code}{'' if eager_done else ', without dynrun'}{where}"
            print(json.dumps({"seed": started, "problem": what, "slow": slow, "replays": 0, "segments": 0, "captured": 0, "raised": 0, "seconds": [0, 0]}), file=out, flush=True)
            left.remove(started)


def warm_up(exact):
    """What torch imports late is imported here, once, and not by every child."""
    value = torch.ones(2, 2, requires_grad=True)
    torch.utils.checkpoint.checkpoint(torch.sin, value, use_reentrant=False).sum().backward()
    torch.manual_seed(0)
    with dynrun.disable():
        for seed in range(3):
            with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
                run_once(compile(generate.program(seed), "warm.py", "exec"), ())
    if not exact:
        # The code generator starts once, before the children are forked.
        warm = dynrun.compile(lambda x: x * 2 + 1)
        warm(torch.ones(3)), warm(torch.ones(3))


def main():
    out = os.fdopen(int(sys.argv[1]), "w")
    exact = sys.argv[2] == "exact"
    torch.set_num_threads(1)
    torch.set_warn_always(True)
    if devices.DEVICE == "cpu":  # another device is the children's to wake: a process that has is not to be forked
        warm_up(exact)
    # The children share what is loaded; their collections need not look at it.
    gc.collect()
    gc.freeze()
    for line in sys.stdin:
        serve(json.loads(line), out, exact)
        print(json.dumps({"done": True}), file=out, flush=True)


main()
