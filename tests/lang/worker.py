"""Runs language programs, one forked child each, after importing torch once.

Started by run.py under python or dynrun. Reads one JSON job a line from stdin ({"program", "timeout"}), writes one JSON
result a line to the file descriptor named in the first argument ({"program", "stdout", "stderr", "status"}).
"""

import json
import os
import select
import signal
import sys
import tempfile
import time
import traceback
import types

import torch  # noqa: F401  (imported here so that no child has to)

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import support  # noqa: E402,F401


def run_as_main(path):
    """Executes a program as __main__ the way the interpreter would; gives the exit status."""
    main = types.ModuleType("__main__")
    main.__file__ = path
    main.__builtins__ = __builtins__
    sys.modules["__main__"] = main
    sys.argv = [path]
    with open(path, encoding="utf-8") as source:
        code = compile(source.read(), path, "exec")
    try:
        exec(code, main.__dict__)
    except SystemExit as stop:
        if stop.code is None or isinstance(stop.code, int):
            return stop.code or 0
        print(stop.code, file=sys.stderr)
        return 1
    except BaseException as error:
        traceback.print_exception(error.with_traceback(error.__traceback__.tb_next))
        return 1
    return 0


def child(path, out, err):
    """The forked process: output to files, one program, no return."""
    status = 70
    try:
        null = os.open(os.devnull, os.O_RDONLY)
        os.dup2(null, 0)
        os.dup2(out, 1)
        os.dup2(err, 2)
        torch.set_num_threads(1)
        status = run_as_main(path)
        sys.stdout.flush()
        sys.stderr.flush()
    finally:
        os._exit(status & 255)


def start(job):
    out, err = tempfile.TemporaryFile(), tempfile.TemporaryFile()
    sys.stdout.flush()
    pid = os.fork()
    if pid == 0:
        child(job["program"], out.fileno(), err.fileno())
    return {"job": job, "pid": pid, "out": out, "err": err, "deadline": time.monotonic() + job["timeout"], "late": False}


def finish(running, status):
    def read(stream):
        stream.seek(0)
        return stream.read().decode("utf-8", "replace")

    code = os.waitstatus_to_exitcode(status)
    return {
        "program": running["job"]["program"],
        "stdout": read(running["out"]),
        "stderr": read(running["err"]),
        "status": "timeout" if running["late"] else code,
    }


def main():
    results = os.fdopen(int(sys.argv[1]), "w")
    jobs = [json.loads(line) for line in sys.stdin]
    width = int(sys.argv[2])
    active = []
    while jobs or active:
        while jobs and len(active) < width:
            active.append(start(jobs.pop(0)))
        for running in list(active):
            pid, status = os.waitpid(running["pid"], os.WNOHANG)
            if pid:
                active.remove(running)
                print(json.dumps(finish(running, status)), file=results, flush=True)
            elif time.monotonic() > running["deadline"] and not running["late"]:
                running["late"] = True
                os.kill(running["pid"], signal.SIGKILL)
        select.select([], [], [], 0.005)


main()
