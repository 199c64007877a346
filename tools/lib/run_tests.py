"""Runs every suite of tests and adds up what they say; called by tools/test.

A suite is the unit tests (one program a layer, in the build folder) or a folder tests/NAME with a run.py, which takes
--filter=TEXT, prints "N passed, N failed[, N skipped]" on its last line and exits with a failure when a test failed.
"""

import argparse
import os
import pathlib
import re
import signal
import subprocess
import sys
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
SUITE_LIMIT = 20 * 60  # seconds; the whole is meant to take under thirty minutes
# The options of each run of a suite's run.py: one run a tuple.
QUICK_RUNS = {"conformance": [], "lang": [()], "models": [("--filter=resnet18",)]}
FULL_RUNS = {"cli": [(), ("--vm=all",)],
             "lang": [(), ("--verify",), ("--stress=break",), ("--stress=guards",), ("--stress=first",), ("--stress=extern",),
                      ("--stress=drop",), ("--stress=handover",), ("--dynamic=on",), ("--dynamic=on", "--stress=first"), ("--dynamic=off",)]}
# The fuzzer draws other programs each time by hand; here the same ones, so that a change shows.
FUZZ_MODES = ("plain", "extern", "extern+guards", "extern+drop", "extern+first", "extern+verify", "extern+open", "open+verify", "open+first")
FULL_RUNS["fuzz"] = [("--seed=2000", "--count=700", f"--modes={mode}") for mode in FUZZ_MODES]
QUICK_RUNS["fuzz"] = [("--seed=2000", "--count=50", "--modes=extern")]
MORE_PROGRAMS = {"lang": ("capture.py", "guards.py", "settled.py", "sizes.py"), "models": ("backends.py",)}  # beside run.py, each run once
SLOW_PROGRAMS = ("backends.py",)  # not in a quick run
LEAK_CHECKED = ("graph", "runtime", "lowering", "report")
SHOWN_FAILURES, LINES_BEFORE, LINES_AFTER = 5, 6, 14  # of a run, once more at the end
COUNTS = re.compile(r"\b(\d+) passed(?:, (\d+) failed)?(?:, (\d+) skipped)?")


class Tally:
    def __init__(self):
        self.passed = self.failed = self.skipped = 0
        self.failures = []  # what is shown once more at the end

    def add(self, passed, failed=0, skipped=0):
        self.passed += passed
        self.failed += failed
        self.skipped += skipped

    def note_failure(self, name, output):
        """Keeps what a failed run printed about its failures, or its last lines."""
        lines = output.splitlines()
        places = [i for i, line in enumerate(lines) if line.startswith("FAIL") or line.endswith("FAILED:")][:SHOWN_FAILURES]
        shown = {number for place in places for number in range(max(0, place - LINES_BEFORE), min(len(lines), place + LINES_AFTER))}
        self.failures.append(f"failed in {name}:")
        self.failures += [f"  {line}" for number, line in enumerate(lines) if number in shown] or [f"  {line}" for line in lines[-LINES_AFTER:]]

    def __str__(self):
        return f"{self.passed} passed, {self.failed} failed, {self.skipped} skipped"


def run(command, environment):
    """Runs a command, shows its output as it comes, and returns (exit status, output)."""
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, cwd=ROOT,
                               env=environment, text=True, errors="replace", start_new_session=True)
    output = []

    def stop():
        os.killpg(process.pid, signal.SIGKILL)
        output.append(f"stopped after {SUITE_LIMIT} s\n")

    timer = threading.Timer(SUITE_LIMIT, stop)
    timer.start()
    for line in process.stdout:
        output.append(line)
        sys.stdout.write("  " + line)
        sys.stdout.flush()
    status = process.wait()
    timer.cancel()
    return status, "".join(output)


def unit_counts(status, output):
    """(passed, failed) test cases, from Catch2's closing line."""
    whole = re.search(r"All tests passed \(\d+ assertions? in (\d+) test cases?\)", output)
    if whole:
        return int(whole[1]), int(status != 0)
    if "No tests ran" in output or "No test cases matched" in output:
        return 0, 0
    part = re.search(r"^test cases:.*", output, re.MULTILINE)
    if not part:
        return 0, 1
    passed = re.search(r"(\d+) passed", part[0])
    failed = re.search(r"(\d+) failed", part[0])
    return int(passed[1]) if passed else 0, int(failed[1]) if failed else 1


def suite_counts(status, output):
    found = COUNTS.findall(output)
    if not found:
        return 0, 1, 0
    passed, failed, skipped = (int(number or 0) for number in found[-1])
    return passed, max(failed, int(status != 0)), skipped


def run_unit(build, text, environment, total):
    programs = sorted(path for path in (build / "tests").glob("*_tests") if os.access(path, os.X_OK))
    for program in programs:
        layer = program.name.removesuffix("_tests")
        command = [str(program)] + ([f"*{text}*"] if text and text not in layer else [])
        print(f"unit: {layer}", flush=True)
        leaks = {"ASAN_OPTIONS": "detect_leaks=1"} if layer in LEAK_CHECKED else {}
        status, output = run(command, environment | leaks)
        passed, failed = unit_counts(status, output)
        total.add(passed, failed)
        if failed:
            total.note_failure(f"unit: {layer}", output)
    if not programs:
        print("unit: no test programs were built")
        total.add(0, 1)


def run_suite(folder, text, quick, environment, total):
    runs = [("run.py", *options) for options in (QUICK_RUNS if quick else FULL_RUNS).get(folder.name, [("--quick",) if quick else ()])]
    more = [(program,) for program in MORE_PROGRAMS.get(folder.name, ()) if not (quick and program in SLOW_PROGRAMS)]
    for program, *options in runs + more:
        name = " ".join((folder.name, *([program] if program != "run.py" else []), *options))
        print(f"{name}:", flush=True)
        start = time.monotonic()
        command = [sys.executable, str(folder / program), *options] + ([f"--filter={text}"] if text else [])
        status, output = run(command, environment)
        passed, failed, skipped = suite_counts(status, output)
        total.add(passed, failed, skipped)
        if failed:
            total.note_failure(name, output)
        print(f"{name}: {passed} passed, {failed} failed, {skipped} skipped in {time.monotonic() - start:.0f} s", flush=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", type=pathlib.Path, required=True)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--preset", default="release")
    parser.add_argument("filter", nargs="?", default="")
    arguments = parser.parse_args()

    folders = sorted(path.parent for path in (ROOT / "tests").glob("*/run.py"))
    names = ["unit"] + [folder.name for folder in folders]
    suite, _, text = arguments.filter.partition("/")
    if suite not in names:
        suite, text = "", arguments.filter

    environment = dict(os.environ, DYNRUN=str(arguments.build / "dynrun"), DYNRUN_PYTHON=sys.executable)
    for name in ("VIRTUAL_ENV", "DYNRUN_OPTIONS"):
        environment.pop(name, None)
    # CPython keeps some memory until the process ends: leaks are looked for in the layers without it.
    environment.setdefault("UBSAN_OPTIONS", "print_stacktrace=1:halt_on_error=1")
    environment.setdefault("ASAN_OPTIONS", "detect_leaks=0")
    total = Tally()
    start = time.monotonic()
    if suite in ("", "unit"):
        run_unit(arguments.build, text, environment, total)
    if arguments.preset == "release":
        for folder in folders:
            if suite in ("", folder.name):
                run_suite(folder, text, arguments.quick, environment, total)
    if total.passed + total.failed + total.skipped == 0:
        print(f"no test is called '{arguments.filter}'")
        total.add(0, 1)
    print("\n".join(total.failures), end="\n" if total.failures else "")
    print(f"finished in {time.monotonic() - start:.0f} s")
    print(total)
    sys.exit(total.failed != 0)


main()
