"""What dynrun itself writes to a terminal."""

import os
import pty
import subprocess
import sys

LONG = """
import time, torch, dynrun
def slow(module, inputs):
    time.sleep(1.6)
    return module.forward
dynrun.compile(lambda x: x + 1, backend=slow)(torch.ones(2))
print("done")
"""


SHORT = "import torch, dynrun; dynrun.compile(lambda x: x + 1)(torch.ones(2)); print('done')"


def on_terminal(script, *options, **environment):
    """All that a run with a terminal as its standard error writes there."""
    reader, writer = pty.openpty()
    with subprocess.Popen([sys.executable, *options, "-c", script], stdout=subprocess.PIPE, stderr=writer, text=True, env={**os.environ, **environment}) as running:
        os.close(writer)
        text = b""
        while True:
            try:
                part = os.read(reader, 4096)
            except OSError:  # the other side is closed
                break
            if not part:
                break
            text += part
        assert running.stdout.read() == "done\n"
    os.close(reader)
    assert running.returncode == 0, text
    return text.decode()


def test_long_compile_is_told():
    text = on_terminal(LONG)
    assert "dynrun: compiling" in text and "1 operator" in text and "\x1b[2m" in text and text.endswith("\r\x1b[K"), repr(text)


def test_no_colour():
    text = on_terminal(LONG, NO_COLOR="1")
    assert "dynrun: compiling" in text and "\x1b[2m" not in text, repr(text)


def test_quiet():
    assert on_terminal(LONG, "--quiet") == ""
    assert on_terminal(SHORT) == ""


def test_no_terminal():
    ran = subprocess.run([sys.executable, "-c", LONG], capture_output=True, text=True)
    assert (ran.stdout, ran.stderr) == ("done\n", ""), ran
