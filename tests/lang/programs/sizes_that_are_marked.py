"""What is said of sizes: compile(dynamic=...), torch._dynamo.mark_dynamic and mark_static. Results are the same with each."""
import torch
from support import seq, show

try:
    import dynrun
except ImportError:
    dynrun = None


def made(dynamic):
    def function(x, w):
        n = x.shape[0]
        return (x @ w).view(n, 2, -1).sum(1) + n, torch.arange(n)

    return dynrun.compile(function, dynamic=dynamic) if dynrun else function


for dynamic in (None, True, False):
    function = made(dynamic)
    for n in (3, 4, 5, 1, 2, 5, 7, 7, 0):
        show(function(seq(n, 4), seq(4, 6)))

for kind, how in (("_dynamo_dynamic_indices", {0}), ("_dynamo_static_indices", {0, 1}), ("_dynamo_weak_dynamic_indices", {1})):
    function = made(None)
    for n in (3, 4, 5, 1, 5):
        x = seq(n, 4)
        setattr(x, kind, how)  # as torch._dynamo's functions do
        show(function(x, seq(4, 6)))

if dynrun:
    try:
        dynrun.compile(made(None), dynamic="yes")
    except TypeError as error:
        text = str(error)
    assert "None, True or False" in text, text
