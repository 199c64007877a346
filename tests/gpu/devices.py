"""Programs that use two GPUs: dynrun tests/gpu/devices.py runs each under dynrun against eager and prints "N passed, N failed, N skipped"."""

import pathlib
import sys
import threading

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "models"))

import torch  # noqa: E402
from torch import nn  # noqa: E402

CALLS = 6
FIRST, SECOND = torch.device("cuda:0"), torch.device("cuda:1")


class Stage(nn.Module):
    def __init__(self, device):
        super().__init__()
        self.first = nn.Linear(64, 256, device=device)
        self.second = nn.Linear(256, 64, device=device)
        self.norm = nn.LayerNorm(64, device=device)
        self.activation = nn.ReLU(inplace=True)

    def forward(self, x):
        return self.norm(x + self.second(self.activation(self.first(x))))


class Pipeline(nn.Module):
    """A model that is spread over two GPUs, as device_map spreads one; `back` takes the result home."""

    def __init__(self, back=True, stages=4):
        super().__init__()
        self.stages = nn.ModuleList(Stage(FIRST if i < stages // 2 else SECOND) for i in range(stages))
        self.back = back

    def forward(self, x):
        for stage in self.stages:
            x = stage(x.to(stage.norm.weight.device))
        return x.to(FIRST) if self.back else x


class Cached(nn.Module):
    """Each GPU keeps what its stage has seen, and writes it in place."""

    def __init__(self):
        super().__init__()
        self.stages = nn.ModuleList([Stage(FIRST), Stage(SECOND)])
        for i, device in enumerate((FIRST, SECOND)):
            self.register_buffer(f"seen{i}", torch.zeros(8, 64, device=device))

    def forward(self, x):
        for stage, seen in zip(self.stages, (self.seen0, self.seen1)):
            x = stage(x.to(seen.device))
            seen.mul_(0.5).add_(x)
        return x, self.seen0[:2], self.seen1 + 1


def tensors(value):
    if isinstance(value, torch.Tensor):
        return [value]
    return [tensor for item in value for tensor in tensors(item)]


def differences(got, expected):
    """What is other than eager's, in words; empty: nothing."""
    for a, b in zip(tensors(got), tensors(expected), strict=True):
        if a.device != b.device or a.dtype != b.dtype or a.shape != b.shape:
            return f"{a.device} {a.dtype} {tuple(a.shape)}, not {b.device} {b.dtype} {tuple(b.shape)}"
        if not torch.allclose(a, b, rtol=1e-3, atol=1e-4, equal_nan=True):
            return f"wrong by {(a - b).abs().max().item():.1e}"
    return ""


def compare(dynrun, function, inputs, eager=None):
    """`function` under dynrun beside itself, or `eager`, called with each of `inputs` in turn."""
    compiled, eager = dynrun.compile(function), eager or function
    for turn, args in enumerate(inputs):
        got = compiled(*args)
        with dynrun.disable():
            problem = differences(got, eager(*args))
        if problem:
            return f"call {turn}: {problem}"
    return ""


def rows(*devices):
    return [(torch.randn(8, 64, device=devices[turn % len(devices)]),) for turn in range(CALLS * len(devices))]


def pipeline(dynrun, back=True):
    model = Pipeline(back).eval()
    dynrun.reset_stats()
    problem = compare(dynrun, model, rows(FIRST))
    segments = [segment["operators"] for segment in dynrun.stats()["segments"] if segment["operators"]]  # of the model; of the turns of compare's loop
    if not problem and (not segments or min(segments) < 5 * len(model.stages)):
        problem = f"segments of {segments} operators"
    return problem or ("" if dynrun.compile(model)(*rows(FIRST)[0]).device == (FIRST if back else SECOND) else "on the wrong device")


def caches(dynrun):
    import copy

    model = Cached().eval()
    return compare(dynrun, model, rows(FIRST), copy.deepcopy(model))


def either_device(dynrun):
    return compare(dynrun, lambda x: torch.softmax(x * 2 + torch.arange(64, device=x.device), -1) @ x.t(), rows(FIRST, SECOND))


def second_only(dynrun):
    """All on a GPU that is not the current one."""
    return compare(dynrun, Stage(SECOND).eval(), rows(SECOND))


def current_device(dynrun):
    """What "cuda" means is said anew by each call's surroundings."""

    def function(x):
        return x.cuda() + torch.ones(64, device="cuda"), torch.zeros(3, device="cuda")

    compiled = dynrun.compile(function)
    for turn in range(4 * CALLS):
        with torch.cuda.device(turn // 3 % 2):
            x = torch.randn(8, 64)
            got = compiled(x)
            with dynrun.disable():
                problem = differences(got, function(x))
        if problem:
            return f"call {turn}: {problem}"
    return ""


def changes_device(dynrun):
    def function(x):
        with torch.cuda.device(1):
            y = torch.full((8, 64), 2.0, device="cuda") * x.to("cuda")
        return y, x * torch.ones(64, device="cuda")

    return compare(dynrun, function, rows(FIRST))


def random_numbers(dynrun):
    """Each GPU has a generator of its own."""

    def function(x):
        a = nn.functional.dropout(x, 0.5)
        b = nn.functional.dropout(x.to(SECOND), 0.5)
        return a + torch.rand_like(a), b * torch.randn_like(b)

    compiled, inputs, results = dynrun.compile(function), rows(FIRST), []
    for call in (compiled, function):
        torch.manual_seed(7)
        if call is compiled:
            results.append([call(*args) for args in inputs])
        else:
            with dynrun.disable():
                results.append([call(*args) for args in inputs])
    return differences(*results)


def streams(dynrun):
    model = Pipeline().eval()
    compiled, args, results = dynrun.compile(model), rows(FIRST)[0], []
    with dynrun.disable():
        expected = model(*args)
    for _ in range(3):
        compiled(*args)
    torch.cuda.synchronize(FIRST), torch.cuda.synchronize(SECOND)
    for _ in range(10):
        with torch.cuda.stream(torch.cuda.Stream(FIRST)), torch.cuda.stream(torch.cuda.Stream(SECOND)):
            results.append(compiled(*args))
    torch.cuda.synchronize(FIRST), torch.cuda.synchronize(SECOND)
    return next(filter(None, (differences(got, expected) for got in results)), "")


def threads(dynrun):
    """A thread for each GPU, each with that GPU as its current one, and one of both."""
    models = [Stage(FIRST).eval(), Stage(SECOND).eval(), Pipeline().eval()]
    problems = []

    def run(model, device):
        torch.cuda.set_device(device)
        with torch.no_grad():
            problems.append(compare(dynrun, model, rows(device) * 5))

    workers = [threading.Thread(target=run, args=case) for case in zip(models, (FIRST, SECOND, FIRST))]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    return next(filter(None, problems), "" if len(problems) == len(models) else "a thread raised")


def errors(dynrun):
    """Operators on tensors of two GPUs raise what they raise in eager."""

    def function(x, y):
        return torch.relu(x) + y

    compiled, texts = dynrun.compile(function), []
    for turn in range(3):
        x = torch.randn(8, 64, device=FIRST)
        for y in (x, x.to(SECOND)):
            try:
                compiled(x, y)
            except RuntimeError as error:
                texts.append(str(error))
        if len(texts) != turn + 1 or "two devices" not in texts[-1]:
            return f"raised {texts}"
    return ""


def gradients(dynrun):
    """Training, spread over both."""
    import copy

    model = Pipeline()
    other = copy.deepcopy(model)

    def step(model, x):
        loss = model(x).square().mean()
        loss.backward()
        return [loss.detach(), *(parameter.grad.clone() for parameter in model.parameters())]

    with torch.enable_grad():
        compiled = dynrun.compile(model)
        for (x,) in rows(FIRST):
            got = step(compiled, x)
            with dynrun.disable():
                problem = differences(got, step(other, x))
            if problem:
                return problem
    return ""


def transformer(dynrun):
    """transformers' Llama, its layers on two GPUs."""
    import transformers

    config = transformers.LlamaConfig(hidden_size=128, intermediate_size=256, num_hidden_layers=4, num_attention_heads=4, vocab_size=1000)
    model = transformers.LlamaModel(config).eval()
    model.embed_tokens.to(FIRST), model.rotary_emb.to(FIRST), model.norm.to(FIRST)
    for i, layer in enumerate(model.layers):
        layer.to(FIRST if i < 2 else SECOND)
        plain = layer.forward

        def moved(hidden, plain=plain, device=next(layer.parameters()).device, **options):
            options = {name: value.to(device) if isinstance(value, torch.Tensor) else value for name, value in options.items()}
            options["position_embeddings"] = tuple(value.to(device) for value in options["position_embeddings"])
            return plain(hidden.to(device), **options)

        layer.forward = moved
    norm = model.norm.forward
    model.norm.forward = lambda hidden: norm(hidden.to(FIRST))
    inputs = [(torch.randint(0, 1000, (2, 16), device=FIRST),) for _ in range(CALLS)]
    return compare(dynrun, lambda ids: model(ids, use_cache=False).last_hidden_state, inputs)


CASES = {"pipeline": pipeline, "pipeline that ends elsewhere": lambda dynrun: pipeline(dynrun, back=False), "caches": caches, "either device": either_device,
         "second only": second_only, "current device": current_device, "changes device": changes_device, "random numbers": random_numbers, "streams": streams,
         "threads": threads, "errors": errors, "gradients": gradients, "transformer": transformer}


def main():
    import dynrun

    if torch.cuda.device_count() < 2:
        print(f"skip: fewer than two GPUs\n0 passed, 0 failed, {len(CASES)} skipped")
        return 0
    failed = 0
    with torch.no_grad():
        for name, case in CASES.items():
            dynrun.reset()
            torch.manual_seed(0)
            problem = case(dynrun)
            failed += bool(problem)
            if problem:
                print(f"FAIL {name}: {problem}", flush=True)
    print(f"{len(CASES) - failed} passed, {failed} failed, 0 skipped")
    return failed != 0


if __name__ == "__main__":
    sys.exit(main())
