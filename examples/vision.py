"""torchvision's resnet18, eager and under dynrun: `dynrun examples/vision.py [--device cuda]`."""

import argparse
import contextlib
import statistics
import sys
import time

import torch
import torchvision

try:
    import dynrun
except ImportError:
    dynrun = None
    print("note: this is plain python; run `dynrun examples/vision.py` to see dynrun's column")

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--device", default="cpu", help="cpu or cuda")
device = parser.parse_args().device
if device.startswith("cuda") and not torch.cuda.is_available():
    sys.exit("there is no GPU that torch can use: run without --device")

torch.manual_seed(0)
model = torchvision.models.resnet18(weights=None).eval().to(device)
image = torch.randn(1, 3, 224, 224, device=device)


def eager():
    with dynrun.disable() if dynrun else contextlib.nullcontext():
        return model(image)


def fast():
    return model(image)


def milliseconds(call):
    began = time.perf_counter()
    call()
    if device != "cpu":
        torch.cuda.synchronize()
    return (time.perf_counter() - began) * 1e3


if dynrun:
    dynrun.compile(model)  # record at the first call; without this line, at the second

with torch.no_grad():
    for _ in range(3):
        eager(), fast()
    difference = (fast() - eager()).abs().max().item()  # of a replay: the first call records, with eager's own operators
    times = [(milliseconds(eager), milliseconds(fast)) for _ in range(20)]

eager_ms, fast_ms = (statistics.median(column) for column in zip(*times))
print(f"eager   {eager_ms:8.2f} ms")
if dynrun:
    print(f"dynrun  {fast_ms:8.2f} ms   {eager_ms / fast_ms:.2f}x")
    print(f"largest difference {difference:.1e}")
