"""Programs as people write them for a GPU: dynrun tests/gpu/capture.py [cuda|cpu] runs each under dynrun against eager. Each is to be
recorded without a break, and right; it prints "N passed, N failed". On the CPU what asks about GPUs takes its other way."""

import sys

import support
import torch
from torch import nn

CALLS = 6


def literals(x):
    """Tensors made of numbers on the input's device."""
    low = torch.tensor(-0.5, device=x.device, dtype=x.dtype)
    scale = torch.tensor([1.0, 2.0, 3.0, 4.0], device=x.device)
    picked = torch.tensor([[3, 0], [1, 2]], device=x.device)
    y = torch.where(x > 0, x, low) * scale
    return y[:, picked].sum(-1), torch.as_tensor([0.485, 0.229], dtype=x.dtype, device=x.device) + y[:, :2], x.new_tensor([1, 2, 3, 4]) * x


def literals_written(x):
    """A literal is another tensor in each call."""
    total = torch.tensor([0.0, 0.0, 0.0, 0.0], device=x.device)
    total += x.sum(0)
    return total, total.clone().mul_(2)


def empty_literals(x):
    """transformers' caches begin so."""
    keys = torch.tensor([], dtype=x.dtype, device=x.device)
    for _ in range(3):
        keys = torch.cat([keys, x], dim=-1)
    return keys * 2


class Counted(nn.Module):
    """Tensors made of a number that changes from call to call."""

    def __init__(self):
        super().__init__()
        self.linear, self.calls = nn.Linear(4, 4), 0

    def forward(self, x):
        self.calls += 1
        return self.linear(x) * torch.tensor(float(self.calls), device=x.device), torch.tensor([self.calls, 2], device=x.device) + x.size(0)


def of_items(x):
    """A literal that holds numbers read from a tensor."""
    first = x[0, 0].item()
    return torch.tensor([first, 2.0, 3.0, first * 2], device=x.device) * x


def moved(x):
    """Made on the CPU, then moved."""
    return x * torch.tensor([1.0, 2.0, 3.0, 4.0]).to(x.device) + torch.ones(4).to(x) + torch.arange(4, dtype=x.dtype).to(x.device, non_blocking=True)


def capability(x):
    if x.is_cuda and torch.cuda.get_device_capability(x.device) >= (8, 0):
        x = x * 2
    if x.device.type == "cuda" and torch.cuda.is_available():
        properties = torch.cuda.get_device_properties(x.device)
        return torch.relu(x) * properties.multi_processor_count + properties.major
    return torch.relu(x)


def named(x):
    name = torch.cuda.get_device_name(x.device) if x.is_cuda else "CPU"
    return x + len(name), x.get_device() + 1


def current(x):
    """What is asked about the surroundings."""
    if x.is_cuda:
        with torch.cuda.device(x.device):
            y = torch.zeros(4, device="cuda") + torch.cuda.current_device()
        return y + x, torch.cuda.device_count() > 0, torch.cuda.is_bf16_supported()
    return x + 0, True, True


def reduced_precision(x):
    with torch.autocast(x.device.type, dtype=torch.bfloat16):
        y = x @ x.t()
    return y.float() + 1, y.dtype


class Decoder(nn.Module):
    """transformers' Llama with the cache that it makes itself."""

    def __init__(self):
        super().__init__()
        import transformers

        self.model = transformers.LlamaModel(transformers.LlamaConfig(hidden_size=64, intermediate_size=128, num_hidden_layers=3, num_attention_heads=4, vocab_size=100))

    def forward(self, x):
        found = self.model((x[:, :4] * 10).long().abs() % 100)
        return found.last_hidden_state, [layer.keys for layer in found.past_key_values.layers]


CASES = {"literals": literals, "literals written": literals_written, "empty literals": empty_literals, "counted": Counted, "of items": of_items,
         "moved": moved, "capability": capability, "named": named, "current": current, "reduced precision": reduced_precision, "decoder": Decoder}


def difference(got, expected):
    """In words; empty: none."""
    if isinstance(got, torch.Tensor):
        if got.device != expected.device or got.dtype != expected.dtype or got.stride() != expected.stride():
            return f"{got.device} {got.dtype} {got.stride()}, not {expected.device} {expected.dtype} {expected.stride()}"
        return "" if torch.allclose(got, expected, rtol=1e-3, atol=1e-4) else f"wrong by {(got.double() - expected.double()).abs().max().item():.1e}"
    if isinstance(got, (tuple, list)):
        return next(filter(None, map(difference, got, expected)), "")
    return "" if got == expected else f"{got!r:.100}, not {expected!r:.100}"


def what_broke(stats):
    """In words; empty: nothing."""
    breaks = [f"{found['id']}: {found['reason'][:60]}, {found['file'].rsplit('/', 1)[-1]}:{found['line']}" for found in stats["graph_breaks"]]
    if breaks:
        return "; ".join(breaks)
    return "" if stats["operators_captured"] >= stats["operators_total"] else f"captured {stats['operators_captured']} of {stats['operators_total']} operators"


def run(dynrun, case, device):
    torch.manual_seed(0)
    made = [case().to(device).eval() if isinstance(case, type) else case for _ in range(2)]
    if isinstance(case, type):
        made[1].load_state_dict(made[0].state_dict())
    inputs = [torch.randn(8, 4, device=device) for _ in range(CALLS)]
    compiled = dynrun.compile(made[0])
    with dynrun.disable():
        expected = list(map(made[1], inputs))
    dynrun.reset_stats()
    got = list(map(compiled, inputs))
    stats = dynrun.stats()
    with dynrun.disable():
        return difference(got, expected) or what_broke(stats)


if __name__ == "__main__":
    sys.exit(support.run_cases(CASES, run))
