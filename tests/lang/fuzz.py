#!/usr/bin/env python3
"""Runs random programs under python and dynrun and compares their output; failing seeds are printed and kept.

`fuzz.py --count 200 --seed 1000 [dynrun options]`; `fuzz.py --print SEED` shows one program.
"""

import argparse
import pathlib
import sys
import tempfile

import generate
import run


def shrink(folder, source, fails):
    """Drops lines of the method as long as the program still compiles and fails."""
    lines = source.splitlines()
    index = 0
    while index < len(lines):
        attempt = lines[:index] + lines[index + 1:]
        try:
            compile("\n".join(attempt), "attempt", "exec")
            smaller = fails("\n".join(attempt) + "\n")
        except SyntaxError:
            smaller = False
        if smaller:
            lines = attempt
        else:
            index += 1
    return "\n".join(lines) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False)
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0, help="the first seed")
    parser.add_argument("--print", type=int, dest="shown", help="print the program of this seed")
    parser.add_argument("--dynrun", default=str(run.ROOT / "build" / "release" / "dynrun"))
    parser.add_argument("--python", default=run.default_python())
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--timeout", type=float, default=30)
    parser.add_argument("--keep", help="write failing programs into this folder")
    parser.add_argument("--shrink", action="store_true", help="shrink the first failing program (one process a try: slow)")
    options, passed_on = parser.parse_known_args()
    if options.shown is not None:
        print(generate.program(options.shown), end="")
        return 0
    with tempfile.TemporaryDirectory() as folder:
        def compare(programs):
            expected = {r["program"]: r for r in run.run_worker([options.python], programs, options.timeout, options.jobs)}
            actual = run.run_worker([options.dynrun, *passed_on], programs, options.timeout, options.jobs)
            return [(pathlib.Path(r["program"]), run.difference(expected[r["program"]], r)) for r in actual]

        programs = []
        for seed in range(options.seed, options.seed + options.count):
            programs.append(pathlib.Path(folder) / f"seed_{seed}.py")
            programs[-1].write_text(generate.program(seed))
        failures = [(path, diff) for path, diff in compare(programs) if diff]
        for path, diff in failures:
            print(f"== {path.stem}\n{diff[:1500]}")
            if options.keep:
                pathlib.Path(options.keep).mkdir(parents=True, exist_ok=True)
                (pathlib.Path(options.keep) / path.name).write_text(path.read_text())
        if failures and options.shrink:
            attempt = pathlib.Path(folder) / "attempt.py"

            def fails(source):
                attempt.write_text(source)
                return bool(compare([attempt])[0][1])

            print("== shrunk\n" + shrink(folder, failures[0][0].read_text(), fails))
        print(f"seeds {options.seed} to {options.seed + options.count - 1}")
        print(f"{len(programs) - len(failures)} passed, {len(failures)} failed")
        return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
