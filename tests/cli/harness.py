"""How a command line is run under both programs, and what counts as the same."""

import difflib
import os
import pathlib
import re
import signal
import subprocess
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
DYNRUN = os.environ.get("DYNRUN") or str(ROOT / "build/release/dynrun")


def default_python():
    for line in (pathlib.Path(DYNRUN).parent / "CMakeCache.txt").read_text().splitlines():
        if line.startswith("DYNRUN_PYTHON:"):
            return line.split("=", 1)[1]
    raise SystemExit("no DYNRUN_PYTHON: run tools/test")


EXTRA = []  # options that every run of dynrun gets

PYTHON = os.environ.get("DYNRUN_PYTHON") or default_python()


class Skip(Exception):
    """A case that this machine cannot run."""


def environment(**changes):
    result = {name: value for name, value in os.environ.items()
              if not name.startswith(("PYTHON", "DYNRUN")) and name != "VIRTUAL_ENV"}
    result["PYTHONDONTWRITEBYTECODE"] = "1"
    for name, value in changes.items():
        result.pop(name, None)
        if value is not None:
            result[name] = value
    return result


class Result:
    def __init__(self, stdout, stderr, status):
        self.stdout, self.stderr, self.status = stdout, stderr, status

    def lines(self):
        return (self.stdout.splitlines(True) + ["\n--- stderr\n"] + self.stderr.splitlines(True) +
                [f"\n--- exit status {self.status}\n"])


def run(program, arguments, cwd=None, stdin="", env=None, timeout=120):
    extra = EXTRA if program == DYNRUN else []
    done = subprocess.run([program, *extra, *arguments], cwd=cwd, input=stdin, env=env or environment(), capture_output=True, text=True,
                          timeout=timeout)
    return Result(done.stdout, done.stderr, done.returncode)


def dynrun(*arguments, **keywords):
    return run(DYNRUN, arguments, **keywords)


def normal(text):
    """Takes out what must differ: the program's name, addresses, process ids named as such."""
    for name in (DYNRUN, PYTHON):
        text = text.replace(name, "PROGRAM")
    text = re.sub(r"0x[0-9a-f]{6,}", "0xADDRESS", text)
    return re.sub(r"\bpid=\d+", "pid=N", text)


def same(*arguments, options=(), **keywords):
    """Runs python and dynrun with the arguments and asserts that both say and do the same; returns dynrun's result."""
    expected = run(PYTHON, arguments, **keywords)
    actual = run(DYNRUN, [*options, *arguments], **keywords)
    pair = [Result(normal(result.stdout), normal(result.stderr), result.status) for result in (expected, actual)]
    difference = "\n".join(difflib.unified_diff(*(["".join(result.lines()).splitlines() for result in pair][0:2]), "python",
                                                "dynrun", lineterm="", n=1))
    assert not difference, f"{' '.join(map(repr, arguments))}\n{difference}"
    return actual


def check(condition, result):
    assert condition, "".join(result.lines())


def one_line_error(result, *words, status=None):
    """A failure that is one line, beginning as dynrun's errors do and holding the words."""
    lines = result.stderr.splitlines()
    check(len(lines) == 1 and lines[0].startswith("dynrun: error: "), result)
    for word in words:
        check(word in lines[0], result)
    check(result.status != 0 if status is None else result.status == status, result)


def interrupted(program, arguments, ready, cwd=None, env=None):
    """Starts a program, sends it SIGINT when it has printed `ready`, and returns its result."""
    process = subprocess.Popen([program, *(EXTRA if program == DYNRUN else []), *arguments], cwd=cwd, env=env or environment(), stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE, text=True,
                               preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL))  # a shell's background job ignores it
    while ready not in process.stdout.readline():
        pass
    time.sleep(0.2)  # let it go on to what it waits in
    process.send_signal(signal.SIGINT)
    try:
        stdout, stderr = process.communicate(timeout=60)
    except subprocess.TimeoutExpired:
        process.kill()  # nothing is left running that slows what comes after
        raise
    return Result(stdout, stderr, process.returncode)
