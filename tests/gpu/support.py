"""What the scripts of programs here share."""

import sys

import torch


def run_cases(cases, run):
    """Runs each case by `run(dynrun, case, device)`, which gives what is wrong in words, on the device that the command line names; gives the
    exit status."""
    import dynrun

    device, failed = (sys.argv[1:] or ["cpu"])[0], 0
    with torch.no_grad():
        for name, case in cases.items():
            dynrun.reset()
            problem = run(dynrun, case, device)
            failed += bool(problem)
            print(f"{'FAIL' if problem else 'pass'} {name}{': ' if problem else ''}{problem}", flush=True)
    print(f"{len(cases) - failed} passed, {failed} failed")
    return failed != 0
