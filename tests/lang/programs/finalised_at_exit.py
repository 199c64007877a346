"""Objects that module globals hold are finalised at the end of the program: files are flushed, `__del__` runs."""

import os
import subprocess
import sys
import tempfile

import torch


class Memory(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("last", torch.zeros(3))

    def forward(self, x):
        self.last = x
        return x + 1


class Told:
    def __del__(self):
        print("__del__ ran", flush=True)


if len(sys.argv) == 1:
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "log.txt")
        subprocess.run([sys.executable, __file__, path], check=True)
        print(repr(open(path).read()))
else:
    log = open(sys.argv[1], "w")
    print("never flushed by hand", file=log)

told = Told()
memory = Memory()
for turn in range(20):
    memory(torch.ones(3))
if hasattr(os, "fork") and len(sys.argv) == 1:
    sys.stdout.flush()
    child = os.fork()
    if child == 0:
        sys.exit(0)
    os.waitpid(child, 0)
print("end")
