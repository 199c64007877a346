#!/usr/bin/env python3
"""Tests of `import dynrun` and of torch.compile as dynrun serves it. Run as `dynrun tests/api/run.py [--filter TEXT]`; each case is a forked child."""

import argparse
import importlib
import pathlib
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "models")]

import harness  # noqa: E402

dynrun = harness.under_dynrun(__file__)

FILES = ("backends", "break_ids", "compiling", "docs", "explaining", "exporting", "extensions", "served", "terminal")


def run_case(case):
    case()
    return []


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--filter", default="", help="only cases whose file or name contains this")
    parser.add_argument("--quick", action="store_true", help="leave out the cases that import what takes seconds")
    options = parser.parse_args()
    passed = failed = 0
    for file in FILES:
        module = importlib.import_module(f"cases_{file}")
        for name, case in vars(module).items():
            if not name.startswith("test_") or options.filter not in f"{file}.{name}" or (options.quick and file == "served"):
                continue
            answer = harness.in_child(run_case, case)
            passed, failed = passed + ("error" not in answer), failed + ("error" in answer)
            if "error" in answer:
                print(f"FAIL {file}.{name}\n{answer['error']}", flush=True)
    print(f"{passed} passed, {failed} failed, 0 skipped")
    return failed != 0


if __name__ == "__main__":
    sys.exit(main())
