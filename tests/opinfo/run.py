#!/usr/bin/env python3
"""A part of torch's operator database through replays, chosen by date; tools/opinfo runs the whole.

Run as `dynrun tests/opinfo/run.py [--filter=TEXT] [--quick]`; started by another python it starts the built dynrun. A sample
that is right but not captured counts as skipped.
"""

import argparse
import datetime
import os
import pathlib
import sys
import types

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "tools" / "lib"))
FRACTION, QUICK_FRACTION = 40, 200

try:
    import dynrun  # noqa: F401
except ImportError:
    executable = os.environ.get("DYNRUN", str(ROOT / "build" / "release" / "dynrun"))
    os.execv(executable, [executable, *sys.argv])

import opinfo  # noqa: E402


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--filter", default="")
    parser.add_argument("--quick", action="store_true")
    arguments = parser.parse_args()
    fraction = 1 if arguments.filter else QUICK_FRACTION if arguments.quick else FRACTION
    options = types.SimpleNamespace(samples=60, variants=list(opinfo.VARIANTS), only=0, jobs=2, verbose=False, dynamic=False, ones=False)
    day = datetime.date.today().toordinal()
    pairs = opinfo.select_operators(opinfo.import_database(), list(opinfo.DTYPES), arguments.filter, fraction, day)
    tally = opinfo.Tally()
    opinfo.run_all(pairs, options, tally.add)
    tally.print_causes(0)
    tally.print_table(list(opinfo.DTYPES))
    print(f"{tally.total(opinfo.GOOD)} passed, {tally.bad()} failed, {tally.listed()} skipped")
    sys.exit(tally.bad() != 0)


main()
