"""The sign of a zero tells in a quotient: elementwise functions give eager's."""
import torch
import torch.nn.functional as F

FUNCTIONS = {name: getattr(torch, name) for name in ("abs", "neg", "expm1", "log1p", "sin", "tan", "asin", "atan", "sinh", "tanh", "asinh", "atanh", "erf", "sqrt", "floor", "ceil",
                                                      "round", "trunc", "frac", "relu", "sign", "square", "sgn", "deg2rad", "nan_to_num")}
FUNCTIONS.update({name: getattr(F, name) for name in ("elu", "celu", "selu", "gelu", "silu", "mish", "hardswish", "hardtanh", "leaky_relu", "softsign", "tanhshrink", "softshrink", "relu6")})
FUNCTIONS["maximum"] = lambda x: torch.maximum(x, -x)
FUNCTIONS["minimum"] = lambda x: torch.minimum(x, -x)
FUNCTIONS["clamp"] = lambda x: x.clamp(-1, 0.0)
FUNCTIONS["cube"] = lambda x: x**3
FUNCTIONS["sub"] = lambda x: 0.0 - x
FUNCTIONS["half"] = lambda x: x / 2


def signs(function, x):
    return torch.signbit(function(x))


for name, function in FUNCTIONS.items():
    for dtype in (torch.float32, torch.float64):
        for step in range(4):
            print(name, dtype, signs(function, torch.tensor([-0.0, 0.0] * 8 + [-0.0], dtype=dtype)).int().tolist())
