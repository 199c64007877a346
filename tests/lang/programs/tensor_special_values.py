import torch
import torch.nn.functional as F

inf, nan = float("inf"), float("nan")
values = [0.0, -0.0, 1.0, -1.0, inf, -inf, nan, 3.4e38, -3.4e38, 88.8, -104.0, 300.5, -300.5, 70000.5, 3e9, -3e9, 1e10]


def pointwise(x):
    return (F.gelu(x), F.gelu(x, approximate="tanh"), F.silu(x), F.softplus(x), F.mish(x), torch.sigmoid(x), torch.tanh(x), torch.log1p(x),
            torch.clamp(x, min=nan), torch.clamp(x, max=nan), torch.clamp(x, -1, inf), torch.clamp(x, nan, 1), torch.relu(x), torch.maximum(x, x.flip(0)))


def rows(x):
    return (*torch.var_mean(x, 1), x.softmax(1), x.amax(1), x.sum(1))


def conversions(x):
    return [x.to(dtype) for dtype in (torch.int8, torch.uint8, torch.int16, torch.int32, torch.int64, torch.bool)]


for dtype in (torch.float32, torch.float64, torch.bfloat16):
    for turn in range(3):
        x = torch.tensor(values, dtype=dtype).roll(turn)
        for result in pointwise(x):
            print([f"{v:.2g}" for v in result.tolist()])
        finite = torch.tensor([[1.0, 2.0, 3.0], [1.0, inf, 2.0], [-inf, -inf, -inf], [1.0, nan, 2.0]], dtype=dtype)
        for result in rows(finite + turn):
            print([f"{v:.3g}" for v in result.flatten().tolist()])
        for result in conversions(x):
            print(result.tolist())
