"""The cases: each a function that takes an empty folder and raises AssertionError when something differs."""

import json
import os
import pathlib
import pty
import re
import shutil
import signal
import subprocess
import sys
import textwrap

import harness
from harness import DYNRUN, PYTHON, Result, Skip, check, dynrun, environment, interrupted, normal, one_line_error, run, same

ALL = []
SLOW = set()


def case(function):
    ALL.append(function)
    return function


def slow(function):
    SLOW.add(function)
    return case(function)


def without_options():
    """For cases about what dynrun does when it is given none."""
    if harness.EXTRA:
        raise Skip("is about a run without options")


def write(folder, name, text):
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(textwrap.dedent(text))
    return str(path)


SHOW = "import sys; print(sys.argv, __name__, sys.path[0]); print(globals().get('__file__'), __spec__)"
FLAGS = "import sys; print(sys.flags, sys.warnoptions, sorted(sys._xoptions.items()))"


# --- where the program comes from ------------------------------------------------------------------------------------------

@case
def script_with_arguments(folder):
    script = write(folder, "a script.py", SHOW)
    same(script, "one", "--explain", "-c", "", "two words")
    same("a script.py", "x", cwd=folder)
    same(os.path.join("..", folder.name, "a script.py"), cwd=folder)


@case
def script_in_symlinked_folder(folder):
    write(folder, "real/script.py", "import sys, helper; print(sys.path[0], helper.__file__)")
    write(folder, "real/helper.py", "")
    (folder / "link.py").symlink_to(folder / "real/script.py")
    same("link.py", cwd=folder)


@case
def command(folder):
    same("-c", SHOW, "-c", "--vm=off", "b", cwd=folder)
    same("-cprint(1)", "x")
    same("-Ic", FLAGS)
    same("-c", "")


@case
def module(folder):
    write(folder, "pack/__init__.py", "print('init', __name__)")
    write(folder, "pack/__main__.py", SHOW)
    write(folder, "pack/part.py", SHOW)
    same("-m", "pack", "--stats=x", "-m", cwd=folder)
    same("-mpack.part", "1", cwd=folder)
    same("-m", "missing", cwd=folder)
    same("-m", "pack.missing", cwd=folder)
    same("-m", "json.tool", stdin='{"a": [1, 2]}')


@case
def folder_and_zip(folder):
    write(folder, "application/__main__.py", SHOW)
    same("application", "1", cwd=folder)
    shutil.make_archive(str(folder / "application"), "zip", folder / "application")
    same("application.zip", cwd=folder)
    same(".", cwd=folder)


@case
def standard_input(folder):
    same(stdin=SHOW, cwd=folder)
    same("-", "a", "-b", stdin=SHOW, cwd=folder)
    same(stdin="import sys\nprint(sys.stdin.read())\n", cwd=folder)
    same("-i", "-q", "-c", "x = 3", stdin="print(x)\n")
    same("-c", "print(input(), input())", stdin="one\ntwo\n")
    same("-", stdin="def f(:\n")
    same(stdin="")


@case
def interactive_terminal(folder):
    def session(program):
        pid, terminal = pty.fork()
        if pid == 0:
            os.execve(program, [program, "-q"], environment(TERM="dumb"))
        os.write(terminal, b"import sys\nprint('is', sys.flags.interactive, sys.argv)\n1/0\n_x = 3\n_x\nexit(3)\n")
        output = b""
        while True:
            try:
                piece = os.read(terminal, 4096)
            except OSError:
                break
            if not piece:
                break
            output += piece
        _, status = os.waitpid(pid, 0)
        text = output.decode()
        return sorted(line for line in text.splitlines() if not line.startswith(">>>")), os.waitstatus_to_exitcode(status)

    expected, actual = session(PYTHON), session(DYNRUN)
    assert expected == actual, f"{expected}\n{actual}"


@case
def missing_and_unreadable(folder):
    same("missing.py", cwd=folder)
    same("missing/", cwd=folder)
    write(folder, "empty/x", "")
    same("empty", cwd=folder)
    same("-c")
    same("-m")


@case
def source_encodings(folder):
    (folder / "latin.py").write_bytes("# -*- coding: latin-1 -*-\nprint('\xe9\xfc')\n".encode("latin-1"))
    (folder / "marked.py").write_bytes(b"\xef\xbb\xbfprint('\xc3\xa9')\n")
    (folder / "bad.py").write_bytes(b"print('\xff')\n")
    (folder / "nul.py").write_bytes(b"print(1)\0\n")
    write(folder, "caf\u00e9.py", SHOW)
    for name in ("latin.py", "marked.py", "bad.py", "nul.py", "caf\u00e9.py"):
        same(name, "\u00fc", cwd=folder)


@case
def skip_first_line(folder):
    write(folder, "x.py", "this is no Python\nprint('second')\n")
    same("-x", "x.py", cwd=folder)


@case
def compiled_script(folder):
    write(folder, "x.py", SHOW)
    run(PYTHON, ["-c", "import py_compile; py_compile.compile('x.py', 'x.pyc')"], cwd=folder)
    same("x.pyc", "a", cwd=folder)


# --- what the program sees -------------------------------------------------------------------------------------------------

@case
def paths(folder):
    write(folder, "x.py", "import sys, site, sysconfig; print(sys.path, sys.prefix, sys.exec_prefix, sys.base_prefix, sys.platlibdir, "
                          "site.getsitepackages(), site.ENABLE_USER_SITE, sysconfig.get_paths())")
    same("x.py", cwd=folder)
    same("-I", "x.py", cwd=folder)
    same("-P", "x.py", cwd=folder)
    same("-s", "x.py", cwd=folder)
    same("x.py", cwd=folder, env=environment(PYTHONPATH=f"{folder}/a:{folder}/b", PYTHONSAFEPATH="1"))


@case
def executable_is_dynrun(folder):
    result = dynrun("-c", "import sys; print(sys.executable)")
    check(result.stdout.strip() == os.path.realpath(DYNRUN), result)
    link = folder / "linked"
    link.symlink_to(DYNRUN)
    result = run(str(link), ["-c", "import sys; print(sys.executable, sys.prefix)"])
    check(result.stdout.split()[0] == os.path.realpath(DYNRUN) and result.status == 0, result)
    result = run("dynrun", ["-c", "import sys; print(sys.executable)"],
                 env=environment(PATH=os.path.dirname(DYNRUN) + ":" + os.environ["PATH"]))
    check(result.stdout.strip() == os.path.realpath(DYNRUN), result)


@case
def original_arguments(folder):
    without_options()
    result = dynrun("--vm=off", "-X", "dev", "-c", "import sys; print(sys.orig_argv)", "a")
    check(eval(result.stdout)[1:] == ["--vm=off", "-X", "dev", "-c", "import sys; print(sys.orig_argv)", "a"], result)


@case
def main_module(folder):
    write(folder, "x.py", """\
        '''Text.'''
        import sys, __main__
        print(__main__ is sys.modules['__main__'], __doc__, __name__, __package__, __spec__, __builtins__, __loader__.__class__)
        print(sorted(globals()))
        """)
    same("x.py", cwd=folder)
    same("-m", "x", cwd=folder)


@case
def module_list_is_pythons(folder):
    if not harness.EXTRA:
        same("-c", "import sys; print(sorted(sys.modules))")
    same("-c", "import threading, signal, os; print(threading.active_count(), threading.current_thread().name, "
               "threading.main_thread().native_id == os.getpid(), signal.getsignal(signal.SIGINT))")


@case
def environment_is_untouched(folder):
    without_options()
    same("-c", "import os; print(sorted(os.environ.items()))", env=environment(A="1"))
    same("-c", "import resource as r; print(r.getrlimit(r.RLIMIT_STACK)); import subprocess as s; "
               "print(s.run('ulimit -s', shell=True, capture_output=True).stdout)")


# --- python's options and variables ----------------------------------------------------------------------------------------

@case
def flags(folder):
    for options in (["-O"], ["-OO"], ["-u"], ["-E"], ["-I"], ["-S"], ["-B"], ["-q"], ["-s"], ["-b"], ["-bb"], ["-d"], ["-P"], ["-R"],
                    ["-W", "error"], ["-Wignore::UserWarning", "-W", "once"], ["-X", "dev"], ["-Xutf8"], ["-X", "utf8=0"],
                    ["-X", "a=b", "-Xc"], ["-X", "int_max_str_digits=0"], ["-BOIq"], ["-bbSWd"],
                    ["-X", "frozen_modules=off"], ["--check-hash-based-pycs", "always"], ["-X", "warn_default_encoding"]):
        same(*options, "-c", FLAGS)


@case
def effects_of_flags(folder):
    same("-O", "-c", "assert False; print(__debug__)")
    same("-OO", "-c", "def f():\n  'text'\nprint(f.__doc__)")
    same("-W", "error", "-c", "import warnings; warnings.warn('w')")
    same("-Wd", "-c", "import warnings; warnings.warn('w', DeprecationWarning)")
    same("-bb", "-c", "b'' == ''")
    same("-u", "-c", "import sys; print(sys.stdout.write_through); sys.stdout.write('x'); import os; os._exit(0)")
    same("-S", "-c", "import sys; print('site' in sys.modules, sys.path)")
    same("-X", "dev", "-c", "import asyncio, sys; print(sys.flags.dev_mode, asyncio.new_event_loop().get_debug())")
    same("-X", "faulthandler", "-c", "import faulthandler; print(faulthandler.is_enabled())")
    same("-X", "tracemalloc=3", "-c", "import tracemalloc; print(tracemalloc.get_traceback_limit())")
    same("-X", "pycache_prefix=/nowhere", "-c", "import sys; print(sys.pycache_prefix)")


@case
def verbose(folder):
    for program in (PYTHON, DYNRUN):
        result = run(program, ["-v", "-c", "pass"])
        check(result.status == 0 and "import 'site'" in result.stderr and "# cleanup[2]" in result.stderr, result)


@case
def fork_from_a_thread(folder):
    write(folder, "x.py", "import os, threading\n"
                          "def run():\n"
                          "    child = os.fork()\n"
                          "    if child: print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))\n"
                          "thread = threading.Thread(target=run)\nthread.start()\nthread.join()\n")
    for options in ((), ("--vm=all",)):
        same("-W", "ignore", str(folder / "x.py"), options=options)  # the child's last thread is not its main one


@case
def bad_options(folder):
    same("-Z")
    same("-W")
    same("-X")
    same("-X", "int_max_str_digits=3", "-c", "0")
    same("--check-hash-based-pycs", "never-heard", "-c", "0")


@case
def version_and_help(folder):
    same("-V")
    same("-VV")
    same("-h")
    same("-?")
    same("--help-env")
    same("--help-xoptions")


@case
def python_variables(folder):
    write(folder, "start.py", "print('started')")
    for changes in ({"PYTHONOPTIMIZE": "1"}, {"PYTHONWARNINGS": "error,ignore::UserWarning"}, {"PYTHONUNBUFFERED": "1"},
                    {"PYTHONDONTWRITEBYTECODE": None}, {"PYTHONDEVMODE": "1"}, {"PYTHONUTF8": "1"}, {"PYTHONNOUSERSITE": "1"},
                    {"PYTHONSAFEPATH": "1"}, {"PYTHONINTMAXSTRDIGITS": "1000"}, {"PYTHONDEBUG": "1"}, {"PYTHONHASHSEED": "7"}):
        same("-c", FLAGS + "; print(hash('abc') if sys.flags.hash_randomization == 0 else '')", env=environment(**changes))
        same("-E", "-c", FLAGS, env=environment(**changes))
    same("-c", "print(hash('abc'), hash('x'))", env=environment(PYTHONHASHSEED="3"))
    same("-c", "print(hash('abc'))", env=environment(PYTHONHASHSEED="x"))
    same("-c", "import sys; print(sys.stdout.encoding, sys.stdout.errors)", env=environment(PYTHONIOENCODING="latin-1:replace"))
    same("-c", "breakpoint()", env=environment(PYTHONBREAKPOINT="os.getcwd"))
    same("-q", "-i", env=environment(PYTHONSTARTUP=str(folder / "start.py")), stdin="1+1\n")
    same("-c", "import sys; print(sys.flags.inspect)", env=environment(PYTHONINSPECT="1"), stdin="")
    same("-c", "x", env=environment(PYTHONHOME="/nowhere"))


@case
def locales(folder):
    show = "import sys, locale; print(sys.getfilesystemencoding(), sys.stdout.encoding, sys.argv, locale.getlocale()[1])"
    for changes in ({"LC_ALL": "C"}, {"LC_ALL": "C.UTF-8"}, {"LC_ALL": "POSIX"}, {"LC_ALL": "xx_YY"}, {"LANG": None, "LC_ALL": None},
                    {"LC_ALL": "C", "PYTHONCOERCECLOCALE": "0"}, {"LC_ALL": "C", "PYTHONCOERCECLOCALE": "warn"}):
        same("-c", show, "\u00e9", env=environment(**changes))


# --- how it ends -----------------------------------------------------------------------------------------------------------

@case
def exit_codes(folder):
    for text in ("0", "1", "3", "255", "256", "-1", "None", "'message'", "(1, 2)", "2**40"):
        same("-c", f"import sys; sys.exit({text})")
    same("-c", "raise SystemExit")
    same("-c", "import os; os._exit(5)")
    same("-c", "exit(4)")
    same("-i", "-c", "import sys; sys.exit(6)", stdin="")
    same("-c", "import threading, sys; threading.Thread(target=lambda: sys.exit(3)).start()")


@case
def uncaught_exceptions(folder):
    script = write(folder, "x.py", """\
        import sys
        class Own(ValueError):
            def __str__(self): return 'own text'
        def inner(n):
            if n: return inner(n - 1)
            try:
                {}['missing']
            except KeyError as error:
                error.add_note('a note')
                raise Own('x') from error
        def outer(): inner(int(sys.argv[1]))
        outer()
        """)
    same(script, "0")
    same(script, "2")
    same(script, "10")
    same("-c", "1/0")
    same("-c", "def f(:")
    same(write(folder, "y.py", "print('a'\n"))
    same("-m", "y", cwd=folder)
    same("-c", "raise ExceptionGroup('g', [ValueError(1), ExceptionGroup('h', [KeyError('k')])])")
    same("-c", "import sys; sys.excepthook = lambda *a: print('hook', a[1]); 1/0")
    same("-c", "import threading; threading.Thread(target=lambda: 1/0, name='t').start()")
    same("-c", "class A:\n  def __del__(self): 1/0\nA()")
    same("-c", "import os\nos.abc\n")
    same("-c", "foo = 1\nfooo")


@case
def output_at_the_end(folder):
    same("-c", "import atexit; atexit.register(print, 'first in'); atexit.register(print, 'last in'); print('body')")
    same("-c", "class A:\n  def __del__(self): print('deleted')\na = A(); print('body')")
    same("-c", "import sys; sys.stdout.close()")
    same("-c", "import os; os.close(1); print('x')")
    same("-c", "import threading, time; threading.Thread(target=lambda: (time.sleep(.2), print('thread'))).start(); print('main')")
    full = "import os, sys; os.dup2(os.open('/dev/full', os.O_WRONLY), 1); print('x')"
    same("-c", full)
    same("-c", full + "; sys.stdout.flush()")


@case
def broken_pipe(folder):
    for program in (PYTHON, DYNRUN):
        done = subprocess.run(f"'{program}' -c 'for i in range(100000): print(i)' | head -1; exit ${{PIPESTATUS[0]}}", shell=True,
                              executable="/bin/bash", capture_output=True, text=True)
        check(done.returncode == 1 and "BrokenPipeError" in done.stderr, Result(done.stdout, done.stderr, done.returncode))


@case
def interrupt(folder):
    sleeping = write(folder, "sleep.py", "import time\nprint('ready', flush=True)\ntime.sleep(60)\n")
    busy = write(folder, "busy.py", "def f():\n  while True: pass\nprint('ready', flush=True)\nf()\n")
    caught = write(folder, "caught.py", "import time\ntry:\n  print('ready', flush=True)\n  time.sleep(60)\n"
                                        "except KeyboardInterrupt:\n  print('caught')\nfinally:\n  print('finally')\n")
    child = write(folder, "thread.py", "import threading, time\nt = threading.Thread(target=time.sleep, args=(1,))\nt.start()\n"
                                       "print('ready', flush=True)\nt.join()\n")
    for script in (sleeping, busy, caught, child):
        expected, actual = (interrupted(program, [script], "ready") for program in (PYTHON, DYNRUN))
        check((expected.stdout, normal(expected.stderr), expected.status) ==
              (actual.stdout, normal(actual.stderr), actual.status), actual)
    check(interrupted(DYNRUN, [sleeping], "ready").status == -signal.SIGINT, actual)


@case
def signals(folder):
    for name in ("SIGTERM", "SIGKILL", "SIGABRT", "SIGSEGV", "SIGUSR1"):
        same("-c", f"import os, signal; os.kill(os.getpid(), signal.{name})")
    same("-c", "import signal, os; signal.signal(signal.SIGUSR1, lambda *a: print('got')); os.kill(os.getpid(), signal.SIGUSR1)")
    same("-c", "import signal, time; signal.signal(signal.SIGALRM, lambda *a: print('alarm')); signal.setitimer(0, .1); time.sleep(.3)")


@case
def deep_recursion(folder):
    deep = "import sys\nsys.setrecursionlimit({})\ndef f(n): return 0 if n == 0 else 1 + f(n - 1)\nprint(f({}))"
    same("-c", deep.format(1000, 950))
    same("-c", deep.format(30000, 20000))
    same("-c", "def f(): return f()\ntry: f()\nexcept RecursionError as e: print(e)")
    through_c = "import sys\nsys.setrecursionlimit(50000)\nclass A:\n  def __init__(self, n): self.n = n\n  def __call__(self): return self.n and A(self.n - 1)()\nprint(A({})())"
    if not harness.EXTRA:  # the text tells on which side of the call the limit was met
        same("-c", through_c.format(15000))
    result = dynrun("-c", through_c.format(15000))
    check("RecursionError: maximum recursion depth exceeded" in result.stderr and result.status == 1, result)


# --- other processes -------------------------------------------------------------------------------------------------------

@case
def subprocess_of_executable(folder):
    same("-c", "import subprocess, sys; print(subprocess.run([sys.executable, '-c', 'import sys; print(sys.argv, sys.prefix)', 'a'], "
               "capture_output=True, text=True))")
    same("-O", "-Wd", "-Xdev", "-c", "import subprocess; print(subprocess._args_from_interpreter_flags())")
    result = dynrun("-c", "import subprocess, sys; subprocess.run([sys.executable, '-c', 'import sys; print(sys.executable)'])")
    check(result.stdout.strip() == os.path.realpath(DYNRUN), result)
    same("-c", "import subprocess, sys; print(subprocess.run([sys.executable, '-c', 'print(1)'], env={}, capture_output=True).stdout)")


@case
def exec_of_executable(folder):
    same("-c", "import os, sys; os.execv(sys.executable, [sys.executable, '-c', 'import sys; print(sys.argv)', 'x'])")


@slow
def multiprocessing_methods(folder):
    script = write(folder, "x.py", """\
        import multiprocessing, os, sys
        def work(n):
            return n * n, multiprocessing.current_process().name.split('-')[0], __name__
        def child(queue):
            queue.put([os.path.basename(sys.argv[0]), sys.flags.optimize, os.getppid() != 0])
            sys.exit(3)
        if __name__ == '__main__':
            for method in ('fork', 'spawn', 'forkserver'):
                context = multiprocessing.get_context(method)
                with context.Pool(2) as pool:
                    print(method, pool.map(work, range(5)))
                queue = context.Queue()
                process = context.Process(target=child, args=(queue,))
                process.start()
                print(queue.get(), process.join(), process.exitcode)
        """)
    same(script)
    same("-O", script)


@slow
def children_run_under_dynrun(folder):
    without_options()
    script = write(folder, "x.py", """\
        import multiprocessing, sys, os
        def child(queue): queue.put((sys.executable, os.environ.get('DYNRUN_OPTIONS', '').split()[:1], os.readlink('/proc/self/exe')))
        if __name__ == '__main__':
            for method in ('fork', 'spawn', 'forkserver'):
                context = multiprocessing.get_context(method)
                queue = context.Queue()
                process = context.Process(target=child, args=(queue,))
                process.start()
                print(*queue.get())
                process.join()
        """)
    result = dynrun("--verify", script)
    own = os.path.realpath(DYNRUN)
    check(result.stdout.splitlines() == [f"{own} ['--verify'] {own}"] * 3, result)


@case
def children_and_statistics(folder):
    without_options()
    child = "import subprocess, sys; subprocess.run([sys.executable, *{}, '-c', '0'])"
    dynrun(f"--stats={folder}/parent.json", "-c", child.format([]))
    assert sorted(path.name for path in folder.iterdir()) == ["parent.json"], list(folder.iterdir())
    dynrun(f"--stats={folder}/parent.json", "-c", child.format([f"--stats={folder}/child.json"]))
    assert sorted(path.name for path in folder.iterdir()) == ["child.json", "parent.json"], list(folder.iterdir())
    dynrun(f"--stats={folder}/again.json", "-c", "import os, sys; os.execv(sys.executable, [sys.executable, '-c', '0'])")
    assert (folder / "again.json").stat().st_size > 0, "a program that replaces itself keeps its statistics"


@case
def tools_of_the_library(folder):
    script = write(folder, "x.py", "def f(a):\n    return a + 1\nprint(f(1))\n")
    same("-m", "pdb", script, stdin="b f\nc\np a\nn\nc\nq\n")
    same("-m", "trace", "--trace", script)
    same("-m", "dis", script)
    same("-m", "ast", script)
    write(folder, "test_x.py", "import unittest\nclass T(unittest.TestCase):\n  def test_a(self): self.assertEqual(1, 2)\n")
    expected, actual = (run(program, ["-m", "unittest", "test_x"], cwd=folder) for program in (PYTHON, DYNRUN))
    check(re.sub(r"in [0-9.]+s", "", expected.stderr) == re.sub(r"in [0-9.]+s", "", actual.stderr), actual)


@case
def little_memory(folder):
    done = subprocess.run(f"ulimit -v 1500000; '{DYNRUN}' -c 'print(1)'", shell=True, executable="/bin/bash", capture_output=True,
                          text=True, env=environment())
    check(done.stdout == "1\n" and not done.stderr, Result(done.stdout, done.stderr, done.returncode))


@case
def fork(folder):
    same("-c", "import os, sys\npid = os.fork()\nif pid == 0:\n  print('child', flush=True)\n  sys.exit(4)\n"
               "print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))")


@case
def process_pool(folder):
    same("-c", "import concurrent.futures as f\nwith f.ProcessPoolExecutor(2) as pool: print(list(pool.map(abs, [-1, -2])))")


# --- environments ----------------------------------------------------------------------------------------------------------

def make_environment(folder):
    subprocess.run([PYTHON, "-m", "venv", "--without-pip", str(folder / "env")], check=True)
    packages = next((folder / "env/lib").glob("python3*/site-packages"))
    (packages / "only_here.py").write_text("print('found')")
    return folder / "env"


@case
def active_environment(folder):
    env = make_environment(folder)
    show = "import sys, only_here; print(sys.prefix, sys.base_prefix, sys.path)"
    for result in (dynrun("-c", show, env=environment(VIRTUAL_ENV=str(env))), dynrun(f"--python={env}", "-c", show),
                   dynrun(f"--python={env}/bin/python", "-c", show)):
        expected = run(str(env / "bin/python"), ["-c", show])
        check((result.stdout, result.stderr) == (expected.stdout, expected.stderr), result)
    result = dynrun(f"--python={env}", "-c", "import subprocess, sys; subprocess.run([sys.executable, '-c', 'import only_here'])")
    check(result.stdout == "found\n", result)
    result = dynrun("-c", "print('ran')", env=environment(VIRTUAL_ENV=str(folder / "gone")))
    check(result.stdout == "ran\n", result)


@slow
def venv_made_by_dynrun(folder):
    result = dynrun("-m", "venv", "--without-pip", str(folder / "new"))
    check(result.status == 0, result)
    result = dynrun("-c", "import sys; print(sys.prefix)", env=environment(VIRTUAL_ENV=str(folder / "new")))
    check(result.stdout.strip() == str(folder / "new"), result)
    result = run(str(folder / "new/bin/python"), ["-c", "import sys; print(sys.prefix)"])
    check(result.stdout.strip() == str(folder / "new"), result)


@case
def hooks_of_site(folder):
    env = make_environment(folder)
    packages = next((env / "lib").glob("python3*/site-packages"))
    (packages / "x.pth").write_text("import sys; sys.from_pth = 1\n/nowhere\n")
    (packages / "sitecustomize.py").write_text("print('customised')")
    show = "import sys; print(sys.from_pth, sys.path)"
    expected, actual = run(str(env / "bin/python"), ["-c", show]), dynrun(f"--python={env}", "-c", show)
    check((expected.stdout, expected.stderr) == (actual.stdout, actual.stderr), actual)


# --- dynrun's own options --------------------------------------------------------------------------------------------------

@case
def own_help_and_version(folder):
    result = dynrun("--help")
    check(result.status == 0 and "--explain" in result.stdout and not result.stderr, result)
    result = dynrun("--version")
    check(re.fullmatch(r"dynrun \d+\.\d+\.\d+ \(CPython 3\.12\.\d+, PyTorch \d+\.\d+\.\d+\)\n", result.stdout), result)


@case
def own_option_errors(folder):
    one_line_error(dynrun("--nonsense"), "--nonsense", "--help", status=2)
    one_line_error(dynrun("--vm=some", "-c", "0"), "auto, all, off", status=2)
    one_line_error(dynrun("--vm", "-c", "0"), "--vm=", status=2)
    one_line_error(dynrun("--stats", "-c", "0"), "--stats=FILE", status=2)
    one_line_error(dynrun("--dump=everything", "-c", "0"), "bytecode", status=2)
    one_line_error(dynrun("--stress=nothing", "-c", "0"), "guards", status=2)
    one_line_error(dynrun("--explain=html5", "-c", "0"), "text, json", status=2)
    one_line_error(dynrun("--verify=1", "-c", "0"), "no value", status=2)
    one_line_error(dynrun("-c", "0", env=environment(DYNRUN_OPTIONS="nonsense")), "DYNRUN_OPTIONS", status=2)


@case
def own_options_anywhere_before_the_script(folder):
    script = write(folder, "x.py", FLAGS + "; print(sys.argv)")
    same("-O", "-X", "a", script, "--vm=off", options=["--vm=off"])
    result = dynrun("-O", "--vm=off", "-Xa", script, "--verify")
    check("'--verify'" in result.stdout and "optimize=1" in result.stdout and result.status == 0, result)


@case
def stats_without_torch(folder):
    result = dynrun(f"--stats={folder}/stats.json", "-c", "import os; os.chdir('/'); print(1)")
    check(result.status == 0 and result.stdout == "1\n", result)
    stats = json.loads((folder / "stats.json").read_text())
    for key in ("operators_total", "operators_captured", "segments_compiled", "segments_dropped", "segment_replays", "frames_vm", "frames_cpython",
                "frames_replayed", "segments", "graph_breaks", "guard_misses", "compile_seconds"):
        assert key in stats, stats
    result = dynrun("--stats=relative.json", "-c", "import os; os.chdir('/')", cwd=folder)
    check((folder / "relative.json").exists() and result.status == 0, result)
    result = dynrun(f"--stats={folder}/failed.json", "-c", "1/0")
    check((folder / "failed.json").exists() and result.status == 1, result)


@case
def explain_comes_last(folder):
    result = dynrun("--explain", "-c", "import atexit; atexit.register(print, 'bye'); print('body')")
    check(result.stdout == "body\nbye\n" and result.stderr == "dynrun: nothing was recorded: no operator of torch ran\n", result)
    done = subprocess.run([DYNRUN, "--explain", "-c", "print('body')"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          env=environment())
    check(done.stdout.startswith("body\ndynrun: "), Result(done.stdout, "", done.returncode))
    result = dynrun("--explain=json", "-c", "0")
    check(json.loads(result.stderr)["graph_breaks"] == [], result)


@slow
def counted_operators(folder):
    script = str(pathlib.Path(__file__).with_name("operators.py"))
    same("-W", "ignore", script, options=(f"--explain=json:{folder}/report.json",))
    report = json.loads((folder / "report.json").read_text())
    total, outside = report["operators_total"], sum(line["count"] for line in report["outside_operators"])
    assert total >= 24000, f"{total} operators, where four threads run 6000 each"
    assert outside <= total - report["operators_captured"], f"{outside} operators outside of segments, of {total}"


@slow
def assumed_operators(folder):
    script = str(pathlib.Path(__file__).with_name("steady.py"))
    called = int(same(script, options=(f"--explain=json:{folder}/report.json",)).stdout)
    report = json.loads((folder / "report.json").read_text())
    assert abs(report["operators_total"] - called) < 0.005 * called, f"{report['operators_total']} operators, where {called} were called"
    if harness.EXTRA:
        return  # under --vm=all CPython runs no function
    assert 0.3 * called < report["operators_assumed"] < called, report["operators_assumed"]
    counts = {name: [line["count"] for line in report["outside_operators"] if line["function"] == name] for name in ("steady", "changed", "in_turns", "twice")}
    for name, count, lines in (("steady", 40000, 1), ("changed", 24000, 1), ("in_turns", 3999, 1), ("twice", 4000, 2)):
        assert len(counts[name]) == lines and all(abs(found - count) < 0.2 * count for found in counts[name]), counts


@case
def stats_file_errors(folder):
    one_line_error(dynrun(f"--stats={folder}/no/such/stats.json", "-c", "print('must not run')"), "No such file", "folder")
    one_line_error(dynrun(f"--stats={folder}", "-c", "print('must not run')"), "Is a directory")
    result = dynrun("--stats=/dev/full", "-c", "print('ran')")
    check(result.stdout == "ran\n", result)
    one_line_error(result, "No space left", status=1)


@case
def python_not_found(folder):
    one_line_error(dynrun("--python=/nowhere/python", "-c", "0"), "/nowhere/python", "--python=PATH")
    one_line_error(dynrun(f"--python={folder}", "-c", "0"), "bin/python")
    write(folder, "shim", "#!/bin/sh\n")
    (folder / "shim").chmod(0o755)
    one_line_error(dynrun(f"--python={folder}/shim", "-c", "0"), "script")
    write(folder, "old/pyvenv.cfg", "home = /usr/bin\nversion = 3.11.2\n")
    write(folder, "old/bin/python", "")
    (folder / "old/bin/python").chmod(0o755)
    one_line_error(dynrun("-c", "0", env=environment(VIRTUAL_ENV=str(folder / "old"))), "3.11.2", "3.12")
    write(folder, "static/lib/python3.12/os.py", "")
    write(folder, "static/bin/python", "")
    (folder / "static/bin/python").chmod(0o755)
    one_line_error(dynrun(f"--python={folder}/static", "-c", "0"), "shared library")


@case
def engine_missing(folder):
    shutil.copy(DYNRUN, folder / "dynrun")
    one_line_error(run(str(folder / "dynrun"), ["--vm=all", "-c", "0"]), "libdynrun.so", "tools/dynrun")
    result = run(str(folder / "dynrun"), ["-c", "print('plain')"])
    check(result.stdout == "plain\n" and result.status == 0, result)


# --- torch -----------------------------------------------------------------------------------------------------------------

@case
def torch_missing(folder):
    env = make_environment(folder)
    result = dynrun(f"--python={env}", "-c", "import torch")
    check("ModuleNotFoundError: No module named 'torch'" in result.stderr and result.status == 1, result)
    result = dynrun(f"--python={env}", "-c", "import dynrun")
    check("ModuleNotFoundError: No module named 'torch'" in result.stderr and result.status == 1, result)


@case
def torch_of_another_version(folder):
    env = make_environment(folder)
    packages = next((env / "lib").glob("python3*/site-packages"))
    write(packages, "torch/version.py", "__version__ = '1.13.1+cpu'\n")
    write(packages, "torch/__init__.py", "import sys\nprint('torch body')\ndef f(): pass\nf()\nprint('after')\n")
    result = dynrun(f"--python={env}", "-c", "try:\n  import torch\nfinally:\n  print('cleaned up')")
    one_line_error(result, "1.13.1", "torch==", "--vm=off")
    check("after" not in result.stdout and "cleaned up" in result.stdout, result)
    result = dynrun(f"--python={env}", "--vm=off", "-c", "import torch")
    check(result.stdout.endswith("after\n") and result.status == 0, result)
    result = dynrun(f"--python={env}", "-c", "print('no torch needed')")
    check(result.status == 0, result)


@slow
def recorded_script_with_an_odd_name(folder):
    """A path that is no valid text, as names of files may be, shows in places of breaks and guards."""
    name = os.fsdecode(b"odd\xff.py")
    write(folder, name, "import torch\nx = torch.ones(3)\nfor i in range(40): x = torch.tanh(x + i)\nprint(x)\n")
    same(name, cwd=folder)


@case
def module_called_torch(folder):
    write(folder, "torch.py", "x = 1")
    write(folder, "x.py", "import torch; print(torch.x)")
    same("x.py", cwd=folder)


@slow
def torch_runs(folder):
    same("-c", "import torch\ntorch.manual_seed(0)\nm = torch.nn.Linear(4, 3)\nwith torch.no_grad(): print(m(torch.ones(2, 4)))")
    same("-c", "import threading\nimport sys\ndef f():\n  import torch\n  print(torch.ones(2) + 1)\nt = threading.Thread(target=f)\n"
               "t.start(); t.join()")


@slow
def torch_in_children(folder):
    script = write(folder, "x.py", """\
        import torch, torch.multiprocessing as mp
        def work(rank, shared): shared[rank] += rank
        if __name__ == '__main__':
            shared = torch.zeros(2).share_memory_()
            mp.spawn(work, (shared,), nprocs=2)
            print(shared)
        """)
    same(script)


@slow
def torch_with_options(folder):
    code = "import torch; print(torch.relu(torch.tensor([-1., 2.])))"
    for options in (["--vm=off"], ["--vm=all"], ["--verify"]):
        same("-c", code, options=options)


@slow
def torch_launcher(folder):
    script = write(folder, "x.py", """\
        import os, sys, torch.distributed as dist, torch
        dist.init_process_group('gloo')
        x = torch.ones(1) * dist.get_rank()
        dist.all_reduce(x)
        if dist.get_rank() == 0: print(x, os.path.basename(os.readlink('/proc/self/exe')))
        dist.destroy_process_group()
        """)
    result = dynrun("-m", "torch.distributed.run", "--nproc-per-node=2", "--standalone", script, env=environment(OMP_NUM_THREADS="1"))
    check("tensor([1.]) dynrun" in result.stdout and result.status == 0, result)


# --- one graph, or an error -----------------------------------------------------------------------------------------------------

@slow
def fullgraph_of_a_whole_script(folder):
    """Making models, printing tensors and an optimizer's step are no part of it."""
    script = write(folder, "train.py", """
        import torch
        model = torch.nn.Sequential(*[torch.nn.Linear(4, 4) for _ in range(8)])
        optimizer = torch.optim.Adam(model.parameters())
        def loss_of(x):
            return model(x).square().mean()
        for step in range(8):
            optimizer.zero_grad()
            loss_of(torch.ones(3, 4)).backward()
            optimizer.step()
            print(step, model[0].bias.shape, torch.arange(3.))
    """)
    result = dynrun("--fullgraph", script)
    check(result.status == 0 and result.stdout == dynrun("--vm=off", script).stdout, result)


@slow
def fullgraph_names_the_line(folder):
    def fails(forward, line, *texts):
        script = write(folder, "breaks.py", f"""
            import sys, torch
            class Net(torch.nn.Module):
                def forward(self, x):
                    {forward}
            net = Net()
            for _ in range(6): net(torch.ones(3, 4))
        """)
        result = dynrun("--fullgraph", script)
        last = result.stderr.splitlines()[-1]
        check(result.status == 1 and last.startswith("RuntimeError: --fullgraph: ") and f"breaks.py:{line} in Net.forward" in last, result)
        check("line -1" not in result.stderr and all(text in last for text in texts), result)

    indent = "\n" + " " * 20
    fails("return x * 2 if x.sum() > 0 else x", 5, "torch.where")
    fails(f"try: return x @ torch.ones(7, 7){indent}except RuntimeError: return x * 2", 5, "RuntimeError")
    fails(f"if x.stride(0) > 0: x = x + sys.getrefcount(x){indent}return x", 5, "getrefcount")


@slow
def fullgraph_errors_are_not_caught_inside(folder):
    """A handler of the function's own sees the error, and it is raised once more at the function's end."""
    script = write(folder, "catches.py", """
        import torch
        class Net(torch.nn.Module):
            def part(self, x):
                try:
                    return x * 2 if x.sum() > 0 else x
                except RuntimeError:
                    return x
            def forward(self, x):
                return self.part(x + 1) * 3
        net = Net()
        for _ in range(6): net(torch.ones(3, 4))
        print("never")
    """)
    result = dynrun("--fullgraph", script)
    check(result.status == 1 and result.stdout == "" and "catches.py:6 in Net.part" in result.stderr, result)
    check(result.stderr.splitlines()[-1] == "It was caught inside of the function, and is raised again at its end.", result)


@slow
def fullgraph_leaves_functions_without_operators(folder):
    script = write(folder, "reads.py", """
        import torch
        def size_of(path):
            with open(path) as file: return len(file.read())
        for _ in range(30): size_of(__file__)
        net = torch.nn.Linear(2, 2)
        for _ in range(6): net(torch.ones(1, 2))
        print("done")
    """)
    check(dynrun("--fullgraph", script).stdout == "done\n", dynrun("--fullgraph", script))


# --- compiled kernels on disk -------------------------------------------------------------------------------------------------

FUSED = """
    import torch, dynrun
    print((dynrun.compile(lambda x: (x * 3 + 1).relu() - 2)(torch.arange(6.))).tolist())
"""


def kept_in(folder):
    return [path for path in folder.rglob("*.o") if path.is_file()]


@slow
def kernels_kept_on_disk(folder):
    script = write(folder, "fused.py", FUSED)
    cache = folder / "not there" / "cache"
    first = dynrun(f"--cache={cache}", script)
    assert first.status == 0 and "14.0" in first.stdout and first.stderr == "", first.lines()
    [kept] = kept_in(cache)
    written = kept.stat()
    again = dynrun(f"--cache={cache}", script)
    assert again.lines() == first.lines(), again.lines()
    assert kept_in(cache) == [kept] and kept.stat().st_ino == written.st_ino, "made again"
    assert dynrun("--cache=off", script).lines() == first.lines()
    default = environment(XDG_CACHE_HOME=str(folder / "xdg"))
    assert dynrun(script, env=default).lines() == first.lines()
    assert len(kept_in(folder / "xdg" / "dynrun" / "kernels")) == 1
    children = write(folder, "children.py", "import subprocess, sys; subprocess.run([sys.executable, sys.argv[1]], check=True)")
    assert dynrun(f"--cache={folder / 'child'}", children, script).lines() == first.lines()
    assert len(kept_in(folder / "child")) == 1


@slow
def kernels_damaged_on_disk(folder):
    script = write(folder, "fused.py", FUSED)
    cache = folder / "cache"
    first = dynrun(f"--cache={cache}", script)
    [kept] = kept_in(cache)
    whole = kept.read_bytes()
    for damaged in (b"", whole[:100], whole[:-1], whole[:-20] + b"x" + whole[-19:], b"x" + whole[1:], whole + b"x", os.urandom(5000)):
        kept.write_bytes(damaged)
        assert dynrun(f"--cache={cache}", script).lines() == first.lines(), damaged[:20]
        assert kept.read_bytes() == whole, "not made anew"


@slow
def kernels_that_cannot_be_kept(folder):
    """The script runs all the same; one line says why, where a folder was asked for."""
    script = write(folder, "fused.py", FUSED)
    right = dynrun("--cache=off", script)
    (folder / "file").write_text("mine")
    limited = write(folder, "limited.py", """
        import resource, runpy, sys
        resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))
        runpy.run_path(sys.argv[1])
    """)
    for arguments, said in (([f"--cache={folder / 'file'}", script], "no folder"), ([f"--cache={folder / 'full'}", limited, script], "File too large")):
        result = dynrun(*arguments)
        assert result.status == 0 and result.stdout == right.stdout, result.lines()
        [line] = result.stderr.splitlines()
        assert line.startswith("dynrun: compiled code cannot be kept in") and said in line and "--cache=" in line, line
        assert dynrun("--quiet", *arguments).stderr == ""
    assert (folder / "file").read_text() == "mine" and not kept_in(folder / "full")
    assert dynrun(script, env=environment(HOME=str(folder / "file"), XDG_CACHE_HOME=None)).lines() == right.lines()
