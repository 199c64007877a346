#!/usr/bin/env python3
"""A fifth of CPython's own test modules under the VM, chosen by date; tools/conformance runs them all.

Run as `python tests/conformance/run.py [--filter=TEXT]`; with a filter, all modules whose name holds it.
"""

import argparse
import os
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--filter", default="")
    arguments = parser.parse_args()
    which = [f"--filter={arguments.filter}"] if arguments.filter else ["--fifth"]
    os.execv(sys.executable, [sys.executable, str(ROOT / "tools" / "conformance"), "--jobs=2", *which])


main()
