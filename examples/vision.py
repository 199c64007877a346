"""torchvision's resnet18, eager and under dynrun: `dynrun examples/vision.py`."""

import statistics
import time

import torch
import torchvision

try:
    import dynrun
except ImportError:
    dynrun = None
    print("note: this is plain python; run `dynrun examples/vision.py` to see dynrun's column")


def milliseconds(function, image):
    began = time.perf_counter()
    function(image)
    return (time.perf_counter() - began) * 1e3


model = torchvision.models.resnet18(weights=None).eval()
image = torch.randn(1, 3, 224, 224)
eager = dynrun.disable(model) if dynrun else model
fast = dynrun.compile(model) if dynrun else model

with torch.no_grad():
    expected = eager(image)
    difference = (fast(image) - expected).abs().max().item()
    for _ in range(3):
        eager(image), fast(image)
    times = [(milliseconds(eager, image), milliseconds(fast, image)) for _ in range(20)]

eager_ms, fast_ms = (statistics.median(column) for column in zip(*times))
print(f"eager   {eager_ms:8.2f} ms")
if dynrun:
    print(f"dynrun  {fast_ms:8.2f} ms   {eager_ms / fast_ms:.2f}x")
    print(f"largest difference {difference:.1e}")
