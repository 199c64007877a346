"""What the model tests and the bench share: the dynrun module (or a stand-in under plain python) and forked children."""

import contextlib
import json
import math
import os
import pathlib
import sys
import traceback
import types

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent


def load_dynrun():
    """The `dynrun` module; under plain python one that compiles nothing (its `real` is False)."""
    try:
        import dynrun
        return dynrun
    except ImportError:
        pass
    empty = {"operators_total": 0, "operators_captured": 0, "segments_compiled": 0, "segments_dropped": 0, "segments": [], "segment_replays": 0, "frames_vm": 0,
             "frames_cpython": 0, "frames_skipped": 0, "graph_breaks": [], "guard_misses": [], "compile_seconds": 0.0}
    return types.SimpleNamespace(real=False, compile=lambda function: function, disable=lambda function=None: function or contextlib.nullcontext(),
                                 stats=lambda: dict(empty), reset_stats=lambda: None)


def is_real(dynrun):
    return getattr(dynrun, "real", True)


def under_dynrun(script):
    """`load_dynrun()`; where plain python runs `script` and dynrun is built, runs it again under that, with the same arguments."""
    dynrun = load_dynrun()
    executable = pathlib.Path(os.environ.get("DYNRUN", ROOT / "build" / "release" / "dynrun"))
    if not is_real(dynrun) and executable.exists() and "DYNRUN_TESTS_PLAIN" not in os.environ:
        os.execv(executable, [str(executable), os.path.abspath(script), *sys.argv[1:]])
    return dynrun


def thunk(function, args=(), kwargs=None):
    """A call without arguments. Frames that take no tensors never become hot, so what only calls thunks stays out of recordings."""
    kwargs = kwargs or {}
    return lambda: function(*args, **kwargs)


def eagerly(dynrun, call):
    """A thunk that runs another one with dynrun switched off."""
    def run():
        with dynrun.disable():
            return call()

    return run


def in_child(function, *args):
    """Runs a function in a forked child; gives {"value": …} or {"error": text}. A crash is an error too."""
    read_end, write_end = os.pipe()
    sys.stdout.flush()
    sys.stderr.flush()
    pid = os.fork()
    if pid == 0:
        os.close(read_end)
        try:
            answer = {"value": function(*args)}
        except BaseException as error:
            answer = {"error": "".join(traceback.format_exception(error)[-6:])}
        with os.fdopen(write_end, "w") as stream:
            json.dump(answer, stream)
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(0)
    os.close(write_end)
    with os.fdopen(read_end) as stream:
        text = stream.read()
    _, status = os.waitpid(pid, 0)
    if not text:
        return {"error": f"the child ended with status {os.waitstatus_to_exitcode(status)}"}
    return json.loads(text)


def geomean(values):
    values = list(values)
    return math.exp(sum(math.log(value) for value in values) / len(values)) if values else float("nan")


def capture_problems(stats, calls, operators):
    """What speaks against `calls` calls of one segment that captured all of `operators` operators each."""
    problems = []
    if stats["segments_compiled"] > 1:
        problems.append(f"{stats['segments_compiled']} segments")
    if stats["operators_captured"] != stats["operators_total"]:
        problems.append(f"captured {stats['operators_captured']} of {stats['operators_total']} operators")
    if stats["operators_total"] != calls * operators:
        problems.append(f"counted {stats['operators_total']} operators in {calls} calls, eager has {operators} a call")
    for found in stats["graph_breaks"][:4]:
        problems.append(f"break {found['id']} ({found['reason']}) at {found['file']}:{found['line']} x{found['count']}")
    for found in stats["guard_misses"][:4]:
        problems.append(f"guard {found['guard']} was {found['was']} now {found['now']} at {found['file']}:{found['line']}")
    return problems
