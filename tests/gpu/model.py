"""Runs a model of the list a few times on the CPU: `dynrun --dump=ptx tests/gpu/model.py NAME` shows its kernels for a GPU."""

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "models"))

import dynrun  # noqa: E402
import torch  # noqa: E402
import zoo  # noqa: E402

entry = next(entry for entry in zoo.MODELS if entry.name == sys.argv[1])
with torch.no_grad():
    model, inputs = entry.make(small=True)
    args, kwargs = inputs(0)
    compiled = dynrun.compile(model)
    outputs = [compiled(*args, **kwargs) for _ in range(3)]
print(len(outputs))
