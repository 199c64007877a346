#!/usr/bin/env python3
"""Runs every language program under python and under dynrun and compares output and exit status exactly.

What python prints is kept in a cache by the content of the program and its helpers. Any option that run.py does not know
is handed to dynrun (`--stress=MODE`, `--verify`, `--vm=all`).
"""

import argparse
import difflib
import hashlib
import json
import os
import pathlib
import subprocess
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent


def default_python():
    """The python that the build was configured with, else this one."""
    cache = ROOT / "build" / "release" / "CMakeCache.txt"
    if cache.exists():
        for line in cache.read_text().splitlines():
            if line.startswith("DYNRUN_PYTHON:"):
                return line.split("=", 1)[1]
    return sys.executable


def cache_folder():
    base = os.environ.get("DYNRUN_CACHE") or os.path.join(
        os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "dynrun")
    folder = pathlib.Path(base) / "lang-expected"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def run_worker(command, programs, timeout, jobs, progress=None):
    """Starts one worker and yields its results; programs a dead worker leaves behind get the status 'worker died'."""
    read_end, write_end = os.pipe()
    environment = dict(os.environ, PYTHONHASHSEED="0", OMP_NUM_THREADS="1", PYTHONDONTWRITEBYTECODE="1")
    worker = subprocess.Popen(command + [str(HERE / "worker.py"), str(write_end), str(jobs)], stdin=subprocess.PIPE,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, pass_fds=[write_end], env=environment, text=True)
    os.close(write_end)
    for program in programs:
        try:
            worker.stdin.write(json.dumps({"program": str(program), "timeout": timeout}) + "\n")
        except BrokenPipeError:
            break
    try:
        worker.stdin.close()
    except BrokenPipeError:
        pass
    missing = {str(program) for program in programs}
    with os.fdopen(read_end) as results:
        for line in results:
            result = json.loads(line)
            missing.discard(result["program"])
            if progress:
                progress(result)
            yield result
    tail = worker.stdout.read()[-1000:]
    code = worker.wait()
    for program in sorted(missing):
        yield {"program": program, "stdout": "", "stderr": tail, "status": f"worker died ({code})"}


def expectations(python, programs, options):
    """What python prints for each program, from the cache where the content is unchanged."""
    folder = cache_folder()
    version = subprocess.run([python, "-c", "import sys, importlib.metadata as m; print(sys.version, *[m.version(p) for p in "
                              "('torch', 'numpy', 'transformers')])"], capture_output=True, text=True, check=True).stdout
    shared = version + (HERE / "support.py").read_text() + (HERE / "worker.py").read_text()
    key = {str(p): hashlib.sha256((str(p) + shared + p.read_text()).encode()).hexdigest() for p in programs}
    found, todo = {}, []
    for program in programs:
        file = folder / key[str(program)]
        if file.exists() and not options.refresh:
            found[str(program)] = json.loads(file.read_text())
        else:
            todo.append(program)
    if todo:
        print(f"python: {len(todo)} programs", flush=True)
        for result in run_worker([python], todo, options.timeout, options.jobs):
            found[result["program"]] = result
            if isinstance(result["status"], int):
                (folder / key[result["program"]]).write_text(json.dumps(result))
    return found


def difference(expected, actual):
    """A unified diff of everything that must be equal, or an empty string."""
    def lines(result):
        status = [f"exit status {result['status']}\n"]
        return result["stdout"].splitlines(True) + ["--- stderr\n"] + result["stderr"].splitlines(True) + status

    return "".join(line if line.endswith("\n") else line + "\n"
                   for line in difflib.unified_diff(lines(expected), lines(actual), "python", "dynrun", n=2))


def main():
    parser = argparse.ArgumentParser(description=__doc__, allow_abbrev=False)
    parser.add_argument("--filter", default="", help="only programs whose name contains this (several: comma)")
    parser.add_argument("--dynrun", default=str(ROOT / "build" / "release" / "dynrun"), help="the executable")
    parser.add_argument("--python", default=default_python(), help="the python to compare with")
    parser.add_argument("--stress", default="", help="a stress mode of dynrun")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--timeout", type=float, default=60)
    parser.add_argument("--refresh", action="store_true", help="run python again even where its output is cached")
    parser.add_argument("--expect-only", action="store_true", help="only run python; a failing program is an error")
    parser.add_argument("--quiet", action="store_true", help="no diffs, only names")
    options, passed_on = parser.parse_known_args()

    wanted = [part for part in options.filter.split(",") if part]
    programs = [p for p in sorted((HERE / "programs").glob("*.py")) if not wanted or any(w in p.stem for w in wanted)]
    began = time.time()
    expected = expectations(options.python, programs, options)
    broken = {p for p, result in expected.items() if result["status"] == "timeout" or not isinstance(result["status"], int)
              or result["status"] == 70}
    if options.expect_only:
        for program in programs:
            result = expected[str(program)]
            if result["status"] != 0:
                print(f"{program.stem}: status {result['status']}\n{result['stderr'][-800:]}")
        print(f"{len(programs)} programs, {len(broken)} broken")
        return 1 if broken else 0

    command = [options.dynrun] + ([f"--stress={options.stress}"] if options.stress else []) + passed_on
    failures = []
    for actual in run_worker(command, programs, options.timeout, options.jobs):
        name = pathlib.Path(actual["program"]).stem
        diff = difference(expected[actual["program"]], actual)
        if diff:
            failures.append((name, actual["status"], diff))
            print(f"FAIL {name} (status {actual['status']})", flush=True)
    for name, _, diff in sorted(failures):
        if not options.quiet:
            print(f"\n== {name}\n{diff}", end="")
    print(f"\n{time.time() - began:.0f} s under {' '.join([os.path.basename(command[0])] + command[1:])}")
    print(f"{len(programs) - len(failures)} passed, {len(failures)} failed")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
