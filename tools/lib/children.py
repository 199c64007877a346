"""Children that get ready, wait and answer orders one at a time: many get ready together, and each is measured alone.

What a child does is a generator: it gives its first answer when it is ready, and one to each order (a line of text) that it is sent.
"""

import contextlib
import json
import os
import subprocess
import sys
import tempfile
import traceback


ends = set()  # the parent's, of the pipes to its children


class Child:
    """The parent's end. Answers are {"value": …}, or {"error": text} where the child raised or died."""

    def __init__(self, orders, answers, wait, errors=None):
        self.orders, self.answers, self.wait, self.errors = orders, answers, wait, errors

    def answer(self):
        line = self.answers.readline()
        return json.loads(line) if line else {"error": f"the child ended with status {self.end()}{self.last_words()}"}

    def last_words(self):
        """What a child of its own program wrote to standard error at the end."""
        if self.errors is None:
            return ""
        self.errors.seek(0)
        return ":\n" + self.errors.read()[-1000:]

    def ask(self, order=""):
        try:
            self.orders.write(order + "\n")
            self.orders.flush()
        except (BrokenPipeError, ValueError):  # it has died: that is the answer
            pass
        return self.answer()

    def end(self):
        """Lets the child go, and gives its exit status once it has gone."""
        for stream in (self.orders, self.answers):
            with contextlib.suppress(BrokenPipeError):
                stream.close()
        return self.wait()


def serve(steps, orders, answers):
    """The child's end, until its generator or the orders are at an end."""
    def tell(answer):
        answers.write(json.dumps(answer) + "\n")
        answers.flush()

    try:
        tell({"value": next(steps)})
        for order in iter(orders.readline, ""):
            tell({"value": steps.send(order.strip())})
    except StopIteration as end:
        tell({"value": end.value})
    except BaseException as error:
        tell({"error": "".join(traceback.format_exception(error)[-6:])})


def forked(function, *args):
    """A forked child, whose generator is that of a call."""
    (orders, give), (take, answers) = os.pipe(), os.pipe()
    sys.stdout.flush()
    sys.stderr.flush()
    pid = os.fork()
    if pid == 0:
        for end in (give, take, *ends):  # those of its siblings too, who would never see that the parent has closed theirs
            os.close(end)
        serve(function(*args), os.fdopen(orders), os.fdopen(answers, "w"))
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(0)
    os.close(orders)
    os.close(answers)
    ends.update((give, take))
    status = []

    def wait():
        if not status:
            ends.difference_update((give, take))
            status.append(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
        return status[0]

    return Child(os.fdopen(give, "w"), os.fdopen(take), wait)


def started(command, environment):
    """A child of its own program, which calls `serve` on the streams that it is started with."""
    errors = tempfile.TemporaryFile("w+", errors="replace")
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, text=True, env=environment)
    own = {process.stdin.fileno(), process.stdout.fileno()}
    ends.update(own)

    def wait():
        ends.difference_update(own)
        return process.wait()

    return Child(process.stdin, process.stdout, wait, errors)


def quiet():
    """Everything that is written to standard output from now on is lost; gives a stream to where it went before."""
    kept = os.fdopen(os.dup(1), "w", encoding="utf-8")
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, 1)
    os.close(null)
    sys.stdout = open(os.devnull, "w", encoding="utf-8")
    return kept
