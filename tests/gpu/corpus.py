"""Functions whose kernels cover what the loop IR can say: dtypes, broadcasting, views, reductions along and across memory.

    dynrun tests/gpu/corpus.py cuda [TEXT]   each case under dynrun against eager; prints "N passed, N failed"
    dynrun tests/gpu/corpus.py cpu  [TEXT]   runs each case on the CPU, with `--dump=ptx` to see what the kernels would be on a GPU

TEXT: only cases whose names hold it, or one of several texts with | between them. On a machine with a GPU also:

    compute-sanitizer --tool memcheck --report-api-errors no --target-processes all dynrun tests/gpu/corpus.py cuda
    compute-sanitizer --tool racecheck --target-processes all dynrun tests/gpu/corpus.py cuda "softmax float32"   (a slice at a time: it is slow)
"""

import sys
import threading

import torch

functional = torch.nn.functional
HALVES = (torch.bfloat16, torch.float16)
FLOATS = (torch.float32, *HALVES, torch.float64)
SHAPES = ((1000,), (33, 77), (4, 3, 17, 64), (1 << 20,), (7, 1), (1,))
ROWS = ((3, 5), (100, 33), (64, 128), (257, 1000), (16, 1024), (9, 1025), (8, 4096), (12, 10000), (16, 33000), (70, 40000), (1, 50))

POINTWISE = {
    "arithmetic": lambda a, b: torch.relu(a * b + 1) - a / (b.abs() + 2),
    "mathematics": lambda a, b: torch.erf(a).exp() + torch.tanh(b) * torch.sin(a) + torch.log1p(b.abs()) + torch.sigmoid(a),
    "activations": lambda a, b: functional.gelu(a) * functional.silu(b) + torch.sqrt(a.abs()),
    "where": lambda a, b: torch.where(a > b, a, b.neg()).clamp(-1, 1),
    "extrema": lambda a, b: torch.maximum(a, b) - torch.minimum(a, b),
}
REDUCTIONS = {
    "softmax": lambda a, w, b: torch.softmax(a, -1),
    "log_softmax": lambda a, w, b: torch.log_softmax(a, -1),
    "layer_norm": lambda a, w, b: functional.layer_norm(a, a.shape[-1:], w, b),
    "softmax and layer_norm": lambda a, w, b: functional.layer_norm(torch.softmax(a, -1), a.shape[-1:], w, b),
    "sums": lambda a, w, b: (a * 2).sum(-1) + a.mean(-1),
    "extrema": lambda a, w, b: a.amax(-1) - a.amin(-1),
    "rms": lambda a, w, b: a * torch.rsqrt(a.pow(2).mean(-1, keepdim=True) + 1e-6) * w,
    "sum of columns": lambda a, w, b: (a + 1).sum(0),
    "extremum of columns": lambda a, w, b: a.amax(0),
    "softmax of columns": lambda a, w, b: torch.softmax(a, 0),
}
IMAGES = {
    "mean of images": lambda a: a.mean((2, 3)),
    "statistics of channels": lambda a: (a - a.mean((0, 2, 3), keepdim=True)) * 2,
    "mean of channels": lambda a: a.mean(1),
    "transpose": lambda a: a.transpose(1, 2) + 1,
    "permute": lambda a: a.permute(0, 2, 3, 1).contiguous() * 2,
    "slices": lambda a: a[:, 1:, :, 3:] + a[:, :-1, :, 2:-1],
    "cat": lambda a: torch.cat([a * 2, a + 1, a], 1),
    "mask": lambda a: a.masked_fill(a > 0, 0.5),
    "arange": lambda a: a + torch.arange(32, device=a.device) * 2,
    "integers": lambda a: ((a * 100).long() * 3 + 1) ^ 5,
    "bools": lambda a: (a > 0) & (a < 1) | a.isnan(),
    "int8": lambda a: (a * 50).to(torch.int8) + 1,
    "uint8": lambda a: (a.abs() * 50).to(torch.uint8) * 2,
    "any and all": lambda a: ((a > 3).any(-1), (a > -9).all(-1)),
    "views handed out": lambda a: (a + 1).view(8, -1)[:, :5].t(),
    "several views": lambda a: (lambda b: (b, b[0], b.t()))(a.view(128, 1024) + 1),
    "inputs handed out": lambda a: (a, a + 1, a.view(-1)),
    "flip": lambda a: a.flip(-1) + 1,
    "misaligned": lambda a: a.view(-1)[1:1001] * 2 + 1,
    "pooling": lambda a: functional.relu(functional.max_pool2d(a + 1, 2)),
    "largest of padded windows": lambda a: functional.max_pool2d(a * 2, 3, 2, 1) + 1,
    "largest of dilated windows": lambda a: functional.max_pool2d(a, 3, (2, 1), 1, 2),
    "largest of windows that hang over": lambda a: functional.max_pool2d(a, 3, 2, 0, 1, True),
    "mean of padded windows": lambda a: functional.avg_pool2d(a * 2, 3, 2, 1) + 1,
    "mean of what padded windows hold": lambda a: functional.avg_pool2d(a * 2, 3, 1, 1, False, False),
    "mean of images by pooling": lambda a: functional.adaptive_avg_pool2d(a + 1, 1) * 2,
    "mean of windows by number": lambda a: functional.adaptive_avg_pool2d(a + 1, (8, 4)) * 2,
    "as many windows as elements": lambda a: functional.adaptive_avg_pool2d(a + 1, (a.shape[2], a.shape[3])),
}
# What lies along another loop in memory than the result does: (function, shapes of its tensors).
ACROSS = {
    "sum of a transposed": (lambda a, b: torch.relu(a.transpose(1, 2) + b), ((4, 300, 257), (4, 257, 300))),
    "sum of three layouts": (lambda a, b, c: torch.relu(a.permute(2, 1, 0) + b) * c.transpose(0, 1), ((90, 60, 70), (70, 60, 90), (60, 70, 90))),
    "a transposed one and a broadcast one": (lambda a, b: a.t() * b + 1, ((700, 515), (700,))),
    "images to channels last": (lambda a: a.permute(0, 2, 3, 1).contiguous() * 2 - 1, ((8, 64, 30, 31),)),
    "two layouts of one result": (lambda a, b: (lambda c: (c, (c.transpose(1, 2) * 2).contiguous()))(a + b.transpose(1, 2)), ((4, 300, 257), (4, 257, 300))),
    "whether a transposed one is larger": (lambda a, b: (a.transpose(1, 2) > b, (a * 100).long().transpose(1, 2).contiguous() + 3), ((4, 300, 257), (4, 257, 300))),
    "norm of a transposed": (lambda a, b: functional.layer_norm(a.transpose(1, 2) + b.transpose(1, 2), (a.shape[1],)), ((2, 768, 196), (2, 768, 196))),
    "norm of a transposed, few rows": (lambda a, b: functional.layer_norm(a.transpose(1, 2) + b.transpose(1, 2), (a.shape[1],)), ((1, 1500, 50), (1, 1500, 50))),
    "norm and sum of two layouts": (lambda a, b: (lambda c: (c, functional.layer_norm(c, c.shape[-1:])))(a.transpose(1, 2) + b), ((70, 40, 65), (70, 65, 40))),
    "norm of many transposed rows": (lambda a, b: functional.layer_norm(a.transpose(1, 2) + b, (a.shape[1],)).contiguous(), ((40, 100, 190), (40, 190, 100))),
    "softmax over the middle": (lambda a, b: (torch.softmax(a * 2, 1) + b).transpose(1, 2).contiguous(), ((5, 333, 130), (5, 333, 130))),
    "long sums across": (lambda a, b: (a * b).sum(0) + a.amax(0), ((9000, 70), (9000, 70))),
}
MIXED = {
    "a tensor's number": lambda a: torch.tanh(a * a.sum().item() + a.mean().item() * 2),
    "a copy on the CPU": lambda a: torch.sin(a).cpu() * 2 + 1,
    "there and back": lambda a: (a * 2).cpu().sin().to(a.device) + torch.relu(a),
    "NumPy": lambda a: torch.from_numpy(torch.sin(a).cpu().numpy() * 2).to(a.device) + a,
    "a number on the CPU": lambda a: torch.tanh(a * torch.tensor(2.5) + 1) * 2,
    "elements under a mask": lambda a: torch.relu(a[a > 0] * 3 + 1) * 2 - 1,
    "nothing under a mask": lambda a: torch.relu(a[a > 99] * 3 + 1) * 2,
    "places under a mask": lambda a: torch.exp(torch.nonzero(a > 1)[:, 0].float() / 8) * 2 + 1,
    "lists of numbers": lambda a: torch.cat([torch.relu(a[0, 0, 0, :n] * 2) + 1 for n in (a[0, 0] > 0).sum(1).tolist()]),
}


def convolution(x, w, b, stride, groups):
    return functional.relu6(functional.conv2d(x * 2, w, b, stride, w.shape[-1] // 2 if groups > 1 else 0, 1, groups))


def convolutions(random):
    """Of single channels, and of images in patches: (name, function, arguments, tolerance) of each."""
    for dtype in FLOATS[:3]:
        kind = str(dtype).removeprefix("torch.")
        for layout in (torch.contiguous_format, torch.channels_last):
            for window, stride in ((3, 1), (3, 2), (5, 1), (5, 2)):
                args = random(2, 24, 19, 17, dtype=dtype).contiguous(memory_format=layout), random(24, 1, window, window, dtype=dtype), random(24, dtype=dtype)
                yield f"convolution of channels {window} {stride} {kind} {layout}", lambda x, w, b, stride=stride: convolution(x, w, b, stride, 24), args, looser(dtype, 1000)
            for patch in (2, 4, 16):
                args = random(2, 3, 32, 64, dtype=dtype).contiguous(memory_format=layout), random(40, 3, patch, patch, dtype=dtype) / patch, random(40, dtype=dtype)
                tolerance = looser(dtype, 1000) if dtype in HALVES else {"atol": 2e-2, "rtol": 1e-2}  # eager's may round to TF32
                yield f"convolution of patches {patch} {kind} {layout}", lambda x, w, b, patch=patch: convolution(x, w, b, patch, 1), args, tolerance
        for height, width, window, stride in ((28, 28, 3, 1), (14, 7, 5, 1), (56, 42, 5, 2), (30, 15, 3, 2)):  # so large that threads take several places
            args = random(48, 160, height, width, dtype=dtype).contiguous(memory_format=torch.channels_last), random(160, 1, window, window, dtype=dtype), random(160, dtype=dtype)
            yield f"convolution of large channels {height}x{width} {window} {stride} {kind}", lambda x, w, b, stride=stride: convolution(x, w, b, stride, 160), args, looser(dtype, 1000)
        args = random(2, 24, 50, dtype=dtype), random(24, 1, 4, dtype=dtype)
        yield f"convolution of channels along one dimension {kind}", lambda x, w: functional.silu(functional.conv1d(x, w, None, 1, 3, 1, 24)), args, looser(dtype, 1000)


def looser(dtype, count):
    """Sums of many numbers are added in another order."""
    return {"atol": 2e-2 * max(1.0, count ** 0.5 / 30), "rtol": 2e-2} if dtype in HALVES else {"atol": 1e-3, "rtol": 1e-4}


def cases(device):
    """(name, function, arguments, tolerance) of each."""
    def random(*shape, dtype=torch.float32):
        return torch.randn(*shape).to(device, dtype)

    for dtype in FLOATS:
        kind = str(dtype).removeprefix("torch.")
        for shape in SHAPES:
            for name, function in POINTWISE.items():
                yield f"{name} {kind} {shape}", function, (random(*shape, dtype=dtype), random(*shape, dtype=dtype)), {}
        for rows, count in ROWS:
            args = random(rows, count, dtype=dtype), random(count, dtype=dtype), random(count, dtype=dtype)
            for name, function in REDUCTIONS.items():
                # A softmax is rounded to its type before layer_norm stretches it: the last bit of one shows in the other.
                stretched = {"atol": 4e-3, "rtol": 1.6e-2} if name == "softmax and layer_norm" and dtype in HALVES else {}
                yield f"{name} {kind} {rows}x{count}", function, args, looser(dtype, max(rows, count)) if "sum" in name else stretched
    for name, function in IMAGES.items():
        yield name, function, (random(8, 16, 32, 32),), {}
        if name in ("views handed out", "several views", "inputs handed out", "misaligned"):
            continue  # they view the memory as it lies
        yield f"{name}, channels last", function, (random(8, 16, 32, 32).contiguous(memory_format=torch.channels_last),), {}
    for dtype in FLOATS:
        for name, (function, shapes) in ACROSS.items():
            yield f"{name}, {str(dtype).removeprefix('torch.')}", function, tuple(random(*shape, dtype=dtype) for shape in shapes), looser(dtype, 9000) if "sums" in name else {}
    for name, function in MIXED.items():
        yield name, function, (random(2, 3, 32, 32),), {}
    yield from convolutions(random)
    yield "broadcast", lambda a, b: a * b[:, None, None] + 1, (random(8, 16, 32, 32), random(16)), {}
    yield "embedding", lambda w, i: functional.embedding(i, w) * 2, (random(100, 64), torch.randint(0, 100, (4, 9)).to(device)), {}
    yield "linear", lambda a, w, b: functional.gelu(functional.linear(a, w, b)), (random(8, 64), random(32, 64), random(32)), {}
    for dtype in FLOATS[:3]:
        kind = str(dtype).removeprefix("torch.")
        yield f"linear of oddly many features {kind}", lambda a, w, b: functional.linear(a, w, b) * 2, (random(64, 128, dtype=dtype), random(2049, 128, dtype=dtype), random(2049, dtype=dtype)), looser(dtype, 4096)
        yield f"linear of oddly many features, no bias {kind}", lambda a, w: functional.linear(a, w), (random(2, 64, 128, dtype=dtype), random(2049, 128, dtype=dtype)), looser(dtype, 4096)
        args = random(2048, 64, dtype=dtype), random(4608, 64, dtype=dtype), random(4608, dtype=dtype)
        yield f"a large product at the end {kind}", lambda a, w, b: functional.linear(torch.relu(a) * 2, w, b), args, looser(dtype, 4096)
        yield f"a large product and what it is of {kind}", lambda a, w, b: ((h := torch.relu(a) * 2), functional.linear(h.view(2, -1, 64), w), h + 1), args, looser(dtype, 4096)
        yield f"numbers of columns {kind}", lambda a, w, b: functional.gelu(a * w + b), (random(6144, 520, dtype=dtype), random(520, dtype=dtype), random(520, dtype=dtype)), {}
    yield "attention", lambda q: functional.scaled_dot_product_attention(q, q, q) + 1, (random(2, 4, 16, 32),), {}


def flat(value):
    return [value] if isinstance(value, torch.Tensor) else [tensor for item in value for tensor in flat(item)]


def exact(dynrun, function, args):
    with dynrun.disable():
        return flat(function(*(arg.double() if arg.is_floating_point() else arg for arg in args)))


def is_nearer(got, eager, reference):
    """Whether what half types give is nearer to the exact result than eager's: libraries have kernels that round sums as they grow."""
    if got.dtype not in HALVES or got.shape != eager.shape:
        return False
    ours, theirs = ((value.double() - reference()).abs() for value in (got, eager))
    return bool(ours.max() <= theirs.max() and ours.norm() <= theirs.norm())


def check(dynrun, function, args, tolerance):
    """What is wrong with the replays; empty where nothing is. On a CPU, whose sums of half types are rounded in another order, they
    are only made."""
    with dynrun.disable():
        expected = flat(function(*args))
    dynrun.reset()
    compiled = dynrun.compile(function)
    outputs = [flat(compiled(*args)) for _ in range(5)]
    for got in outputs[-2:] if outputs[0][0].is_cuda else ():
        for i, (a, b) in enumerate(zip(got, expected, strict=True)):
            try:
                torch.testing.assert_close(a, b, **tolerance)
            except AssertionError as error:
                if not is_nearer(a, b, lambda i=i: exact(dynrun, function, args)[i]):
                    return str(error)
            if a.stride() != b.stride():
                return f"strides {a.stride()}, not {b.stride()}"
    for last, before, given in zip(outputs[-1], outputs[-2], expected, strict=True):
        if last.numel() and not any(last.data_ptr() == arg.data_ptr() for arg in args) and last.data_ptr() == before.data_ptr():
            return "two calls gave the same memory"
        del given
    return ""


def check_moving(dynrun, device):
    """Inputs that lie elsewhere at each call."""
    function = POINTWISE["arithmetic"]
    dynrun.reset()
    compiled = dynrun.compile(lambda a: torch.softmax(function(a, a), -1) @ a)
    inputs = [torch.randn(64, 64).to(device) for _ in range(5)]
    for turn in range(20):
        value = inputs[turn % 5]
        got = compiled(value)
        with dynrun.disable():
            expected = torch.softmax(function(value, value), -1) @ value
        if not torch.allclose(got, expected, atol=1e-5):
            return f"call {turn} is wrong"
    return ""


def check_streams(dynrun, device):
    """Calls on several streams, some of which are not torch's, and by several threads: graphs share memory. The products are split,
    which begins with memory that is cleared."""
    if device == "cpu":
        return ""
    x, w = torch.randn(64, 8192, device=device), torch.randn(8192, 96, device=device)

    def function():
        return torch.relu(x @ w) @ w.t() + x

    dynrun.reset()
    compiled = dynrun.compile(function)
    with dynrun.disable():
        expected = function()
    for _ in range(4):
        compiled()
    torch.cuda.synchronize()
    own = [torch.cuda.current_stream(), *(torch.cuda.Stream() for _ in range(3))]
    others = [torch.cuda.ExternalStream(stream.cuda_stream) for stream in own[1:]]
    results = []

    def run(streams):
        with torch.no_grad():
            for stream in streams:
                with torch.cuda.stream(stream):
                    results.append(compiled())

    run(own * 5)
    run([stream for pair in zip(own[1:] * 5, others * 5) for stream in pair])
    threads = [threading.Thread(target=run, args=([stream] * 10,)) for stream in own[1:]]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    torch.cuda.synchronize()
    wrong = sum(not torch.allclose(got, expected, rtol=1e-4, atol=1e-2) for got in results)
    return f"{wrong} of {len(results)} calls are wrong" if wrong else ""


LARGE = {
    "linear": lambda x, w, b: functional.linear(torch.relu(x) + 1, w),
    "linear with a bias": lambda x, w, b: functional.linear(torch.relu(x) + 1, w, b),
    "product": lambda x, w, b: torch.mm(torch.tanh(x[0]), w.t()),
    "two results": lambda x, w, b: (functional.linear(torch.relu(x), w), x.sum()),
    "result that is read": lambda x, w, b: (lambda y: (y, y.sum()))(functional.linear(torch.relu(x), w)),
    "view of the result": lambda x, w, b: functional.linear(torch.relu(x), w).view(8, 256, 75, 80),
    "oddly many features": lambda x, w, b: functional.linear(torch.relu(x) + 1, w.view(-1)[:5999 * 256].view(5999, 256)),
}


def check_large_results(dynrun, device):
    """A product that makes a large result at the very end: each call's lies in memory of its own, and stays as it was."""
    if device == "cpu":
        return ""
    wrong = []
    for dtype in FLOATS:
        w, b = torch.randn(6000, 256, device=device, dtype=dtype), torch.randn(6000, device=device, dtype=dtype)
        for name, function in LARGE.items():
            compiled, kept = dynrun.compile(function), []
            for _ in range(8):
                x = torch.randn(8, 256, 256, device=device, dtype=dtype)
                got = compiled(x, w, b)
                with dynrun.disable():
                    kept.append((got, function(x, w, b)))
            try:
                torch.testing.assert_close([got for got, _ in kept], [expected for _, expected in kept], rtol=2e-2, atol=0.5 if dtype in HALVES else 1e-3)
            except AssertionError as error:
                wrong.append(f"{name}, {dtype}: {error}")
    return "; ".join(wrong)


def main():
    import dynrun

    device, texts = sys.argv[1], sys.argv[2].split("|") if len(sys.argv) > 2 else [""]

    def wanted(name):
        return any(text in name for text in texts)

    torch.manual_seed(0)
    passed = failed = 0
    with torch.no_grad():
        results = [(name, check(dynrun, *case)) for name, *case in cases(device) if wanted(name)]
        whole = {"inputs that move": check_moving, "several streams": check_streams, "large results": check_large_results}
        results += [(name, test(dynrun, device)) for name, test in whole.items() if wanted(name)]
    for name, problem in results:
        passed, failed = passed + (not problem), failed + bool(problem)
        if problem:
            print(f"FAIL {name}: {problem}")
    print(f"{passed} passed, {failed} failed")
    return failed != 0


if __name__ == "__main__":
    sys.exit(main())
