"""Programs that check values of tensors and raise: dynrun tests/gpu/checks.py [cuda|cpu] runs each under dynrun against eager, with values
that pass and values that do not, and prints "N passed, N failed"."""

import sys

import support
import torch
from torch import nn

PASSES, FAILS = 1.0, -1.0
TURNS = (PASSES, PASSES, PASSES, FAILS, PASSES, PASSES, FAILS, PASSES, FAILS, FAILS, PASSES, PASSES, PASSES)


class Checked(nn.Module):
    """A model that checks what comes in and what goes out, and keeps count."""

    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(64, 64) for _ in range(4))
        self.register_buffer("seen", torch.zeros(64))

    def forward(self, x):
        if not torch.all(x > 0):
            raise ValueError("an input is not positive")
        for layer in self.layers:
            x = torch.relu(layer(x)) + 0.5
        assert torch.isfinite(x).all(), "not finite"
        self.seen.mul_(0.9).add_(x.mean(0))
        return x, self.seen + 1


def asserts(x):
    y = torch.softmax(x * 3, -1)
    assert (x > 0).all(), "negative"
    return y @ y.t()


def two_checks(x):
    if (x <= 0).any():
        raise RuntimeError("first")
    y = x.cumsum(-1)
    if not (y[..., -1] > 0).all():
        raise RuntimeError("second")
    return y.log(), x.sqrt()


def late_check(x):
    y = x * 2 + 1
    for _ in range(5):
        y = torch.sin(y) + y
    if bool((x < 0).any()):
        raise ArithmeticError("late")
    return y


def caught(x):
    try:
        assert x.min() > 0
        return x.exp()
    except AssertionError:
        return x.abs() + 100


def draws(x):
    y = torch.rand_like(x)
    assert (x > 0).all()
    return y + torch.randn_like(x) * x


def behind_a_copy(x):
    y = x.cpu() * 2
    assert (y > 0).all(), "seen on the CPU"
    return y.to(x.device) + x


def normal(x):
    distribution = torch.distributions.Normal(x.mean(-1, keepdim=True) * 0.1, x, validate_args=True)
    return distribution.log_prob(x), distribution.entropy()


def categorical(x):
    distribution = torch.distributions.Categorical(probs=x, validate_args=True)
    return distribution.entropy(), distribution.log_prob(torch.zeros(x.shape[0], dtype=torch.long, device=x.device))


def item(x):
    if x.min().item() <= 0:
        raise ValueError(f"{x.min().item():.3f} is not positive")
    return torch.sin(x) * 2


def item_of_truth(x):
    if (x <= 0).any().item():
        raise ValueError("not positive")
    return torch.sin(x) * 2


def counted(x):
    positive = int((x > 0).sum())
    assert positive >= 512, f"only {positive}"
    return x * positive


def between(x):
    y = x.cumsum(-1)
    assert -0.0 < float(x.min()) <= 1.5 and 1e9 >= y.max().item()
    return y


CASES = {"item": item, "item of truth": item_of_truth, "counted": counted, "between": between, "model": Checked, "asserts": asserts, "two checks": two_checks, "late check": late_check, "caught": caught, "draws": draws,
         "behind a copy": behind_a_copy, "normal": normal, "categorical": categorical}


def outcome(function, x):
    try:
        return function(x)
    except Exception as error:  # the very thing that is compared
        return f"{type(error).__name__}: {str(error)[:200]}"


def difference(got, expected):
    """In words; empty: none."""
    if isinstance(got, str) or isinstance(expected, str):
        return "" if got is expected or (isinstance(got, str) and got == expected) else f"{got!r:.100}, not {expected!r:.100}"
    if isinstance(got, torch.Tensor):
        return "" if torch.allclose(got, expected, rtol=1e-4, atol=1e-5) else f"wrong by {(got - expected).abs().max().item():.1e}"
    return next(filter(None, map(difference, got, expected)), "")


def outcomes(case, inputs):
    torch.manual_seed(0)
    return [outcome(case, x) for x in inputs]


def run(dynrun, case, device):
    torch.manual_seed(0)
    made = [case().to(device).eval() if isinstance(case, type) else case for _ in range(2)]
    if isinstance(case, type):
        made[1].load_state_dict(made[0].state_dict())
    inputs = [torch.rand(8, 64, device=device) + 0.1 for _ in TURNS]
    for x, sign in zip(inputs, TURNS, strict=True):
        x[3, 5] *= sign
    got = outcomes(dynrun.compile(made[0]), inputs)
    with dynrun.disable():
        return difference(got, outcomes(made[1], inputs))


if __name__ == "__main__":
    sys.exit(support.run_cases(CASES, run))
