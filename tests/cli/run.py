#!/usr/bin/env python3
"""Runs the same command lines under python and dynrun and compares what they do; then what only dynrun has.

    tests/cli/run.py [--quick] [--filter=TEXT]

Any other option goes to dynrun in every case (--vm=all); cases about the options themselves may then fail.
The python compared with is the one dynrun embeds (DYNRUN_PYTHON), the executable is DYNRUN, by default the release build.
"""

import argparse
import os
import pathlib
import sys
import tempfile
import time
import traceback

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

import cases  # noqa: E402


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="leave out the cases that import torch or take seconds")
    parser.add_argument("--filter", default="", help="only cases whose name contains this")
    options, cases.harness.EXTRA[:] = parser.parse_known_args()
    chosen = [case for case in cases.ALL if options.filter in case.__name__ and not (options.quick and case in cases.SLOW)]
    passed = failed = skipped = 0
    for case in chosen:
        start = time.monotonic()
        with tempfile.TemporaryDirectory() as folder:
            try:
                case(pathlib.Path(folder))
                passed += 1
                continue
            except cases.Skip as reason:
                skipped += 1
                print(f"skip {case.__name__}: {reason}", flush=True)
                continue
            except AssertionError as error:
                text = str(error) or traceback.format_exc()
            except Exception:
                text = traceback.format_exc()
        failed += 1
        print(f"FAIL {case.__name__} ({time.monotonic() - start:.1f} s)\n{text}", flush=True)
    print(f"{passed} passed, {failed} failed, {skipped} skipped")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
