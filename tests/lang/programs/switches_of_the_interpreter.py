"""Limits and flags that C code asks for: they are asked for again."""

import sys

import torch

sys.setrecursionlimit(1000)
def f(x): return x * 1, sys.getrecursionlimit()
for i in range(3): print(f(torch.ones(1))[1])
sys.setrecursionlimit(2000)
for i in range(3): print(f(torch.ones(1))[1])

B = torch.backends
x = torch.ones(1)
def flag(name, get, put):
    def f(x): return x * 1, get()
    out = []
    for value in (True, False, True):
        put(value)
        out += [f(x)[1] for i in range(3)]
    print(name, out)
flag("cudnn.allow_tf32", lambda: B.cudnn.allow_tf32, lambda v: setattr(B.cudnn, "allow_tf32", v))
flag("nnpack", torch._C._get_nnpack_enabled, torch._C._set_nnpack_enabled)
flag("cudnn sdp", B.cuda.cudnn_sdp_enabled, B.cuda.enable_cudnn_sdp)
flag("overrideable sdp", torch._C._get_overrideable_sdp_enabled, torch._C._set_sdp_use_overrideable)
flag("fill_uninitialized_memory", lambda: torch.utils.deterministic.fill_uninitialized_memory, lambda v: setattr(torch.utils.deterministic, "fill_uninitialized_memory", v))

def f(x, n):
    try: return (x * 1).item(), len(str(n))
    except ValueError as e: return str(e)
for limit in (0, 4300):
    sys.set_int_max_str_digits(limit)
    for i in range(3): print(f(torch.ones(1), 10 ** 5000))
