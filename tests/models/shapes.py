"""The shapes suite of tools/bench: one model at many sizes, in random order.

Images: batches of 1, 2, 3, 5, 8 and 16, sizes from 96 to 256 where the model takes any. Text: 40 lengths from 7 to 384. Each
size is met twice, the first time beside eager; then some are timed beside a segment that was made for that very size.
"""

import bisect
import operator
import random
import statistics
import time

import torch

import harness
import zoo

BATCHES, IMAGE_SIZES = (1, 2, 3, 5, 8, 16), (96, 128, 160, 192, 224, 256)
LENGTHS, SHORTEST, LONGEST = 40, 7, 384
TIMED = 5  # sizes
KNOWN = 3  # so many sizes are met before others are new ones among many


def is_image(tensor):
    return tensor.dim() == 4


def of_size(tensor, size, generator):
    """An input like `tensor` at another size: (batch, pixels) of an image, or a length of text."""
    if isinstance(size, tuple):
        if not is_image(tensor):
            return tensor.expand(size[0], *tensor.shape[1:]).clone()
        return torch.randn(size[0], tensor.shape[1], size[1], size[1], generator=generator)
    if tensor.dim() != 2 or tensor.is_floating_point():
        return tensor
    values = tensor.flatten()
    return values[torch.randint(0, values.numel(), (tensor.shape[0], size), generator=generator)]


def sizes_for(model, args, kwargs, small):
    """The sizes that this model takes, in random order."""
    draw, example = random.Random(0), (list(args) + list(kwargs.values()))[0]
    if not is_image(example):
        return draw.sample(range(SHORTEST, longest_text(model, args, kwargs) + 1 if not small else 64), LENGTHS if not small else 12)
    batches, pixels = (BATCHES[:4], IMAGE_SIZES[:2]) if small else (BATCHES, IMAGE_SIZES)
    sizes = [(batch, draw.choice(pixels)) for batch in batches for _ in range(2)]
    if not takes_any_size(model, example):
        sizes = [(batch, example.shape[-1]) for batch in batches]
    draw.shuffle(sizes)
    return sizes


def longest_text(model, args, kwargs):
    """The longest text that the model takes (some have a fixed number of places), LONGEST at most."""
    def takes(length):
        given, named = inputs_at(args, kwargs, length)
        try:
            model(*given, **named)
        except (ValueError, IndexError, RuntimeError):
            return False
        return True

    if takes(LONGEST):
        return LONGEST
    return bisect.bisect_left(range(SHORTEST, LONGEST), True, key=lambda length: not takes(length)) + SHORTEST - 1


def takes_any_size(model, example):
    """Whether the model takes images that are one patch larger."""
    try:
        model(torch.zeros(1, example.shape[1], example.shape[2] + 32, example.shape[3] + 32))
    except Exception:
        return False
    return True


def inputs_at(args, kwargs, size):
    generator = torch.Generator().manual_seed(hash(size) % 1000)
    return ([of_size(a, size, generator) for a in args], {name: of_size(a, size, generator) for name, a in kwargs.items()})


def thunks(function, all_inputs):
    return [harness.thunk(function, *inputs) for inputs in all_inputs]


def wait():
    if torch.cuda.is_initialized():
        torch.cuda.synchronize()


def timed(call, kept):
    """Milliseconds. The result is kept: what nobody has is not computed when the timing loop itself is recorded."""
    wait()
    began = time.perf_counter()
    kept.append(call())
    wait()
    ended = time.perf_counter()
    kept.clear()
    return (ended - began) * 1e3


def medians(calls, runs):
    """Of each call's milliseconds, called in turns."""
    kept, times = [], [[] for _ in calls]
    for call in calls * 3:
        timed(call, kept)
    for _ in range(runs):
        for call, into in zip(calls, times):
            into.append(timed(call, kept))
    return [statistics.median(into) for into in times]


def second_times(calls):
    """Milliseconds of each call when it is made again."""
    for call in calls:
        call()
    kept = []
    return [timed(call, kept) for call in calls]


def on_device(device, given):
    return [([a.to(device) for a in args], {name: a.to(device) for name, a in kwargs.items()}) for args, kwargs in given]


def measure(name, options, dynrun):
    """One row, as a dict. `made`: the segments in all, `segments`: those that are kept; `new_over_eager`: first calls at sizes behind the
    first few ones, beside eager."""
    torch.set_num_threads(options.threads)
    torch.backends.cudnn.allow_tf32 = False  # its results are checked to float32's precision
    entry = next(entry for entry in zoo.MODELS if entry.name == name)
    with torch.no_grad():
        model, inputs = entry.make(small=options.small)
        args, kwargs = inputs(0)
        sizes = harness.eagerly(dynrun, harness.thunk(sizes_for, (model, args, kwargs, options.small)))()
        model = model.to(options.device)
        given = on_device(options.device, [inputs_at(args, kwargs, size) for size in sizes])
        eager = [harness.eagerly(dynrun, call) for call in thunks(model, given)]
        plain_times = harness.eagerly(dynrun, harness.thunk(second_times, (eager,)))()
        expected = [call() for call in eager]

        def of_many_sizes(*args, **kwargs):
            return model(*args, **kwargs)

        dynrun.compile(of_many_sizes)
        dynrun.reset_stats()
        began = time.perf_counter()
        calls = thunks(of_many_sizes, given)
        kept, outputs = [], []
        # From C, so that the loops are no part of what is recorded.
        first_times = list(map(lambda call: timed(lambda: outputs.append(call()), kept), calls))
        outputs += list(map(operator.call, calls))
        wait()
        seconds = time.perf_counter() - began
        stats = dynrun.stats()
        problems = harness.eagerly(dynrun, harness.thunk(find_problems, (model, given, outputs, expected * 2)))()

        def of_one_size(*args, **kwargs):
            return model(*args, **kwargs)

        dynrun.compile(of_one_size, dynamic=False)
        ratios, speedups = [], []
        for i in random.Random(1).sample(range(len(sizes)), min(TIMED, len(sizes))):
            many, one = medians([calls[i], harness.thunk(of_one_size, *given[i])], options.runs)
            # By itself and switched off: a loop in which operators run outside of segments would be recorded.
            [plain] = harness.eagerly(dynrun, harness.thunk(medians, ([eager[i]], options.runs)))()
            ratios.append(many / one)
            speedups.append(plain / many)
    return {"name": name, "sizes": len(sizes), "segments": stats["segments_compiled"] - stats["segments_dropped"], "made": stats["segments_compiled"], "compile_seconds": stats["compile_seconds"], "seconds": seconds,
            "new_over_eager": statistics.geometric_mean(new / plain for new, plain in list(zip(first_times, plain_times))[KNOWN:]), "over_static": statistics.geometric_mean(ratios), "over_eager": statistics.geometric_mean(speedups), "problems": problems}


def find_problems(model, given, outputs, expected):
    problems = set()
    for inputs, got, right in zip(given * 2, outputs, expected, strict=True):
        problems.add(zoo.compare(got, right, harness.thunk(zoo.in_double, (model, *inputs))))
    return sorted(problem for problem in problems if problem)


def measure_peer(name, options):
    """torch.compile in this plain python process: {mode: graphs, seconds over eager's, ratio over eager}."""
    import torch._dynamo as dynamo
    from torch._dynamo.utils import counters

    torch.set_num_threads(options.threads)
    dynamic = {"none": None, "true": True}[options.peer_child]
    entry = next(entry for entry in zoo.MODELS if entry.name == name)
    with torch.no_grad():
        model, inputs = entry.make(small=options.small)
        args, kwargs = inputs(0)
        sizes = sizes_for(model, args, kwargs, options.small)
        given = [inputs_at(args, kwargs, size) for size in sizes]
        dynamo.config.cache_size_limit = 64
        fast = torch.compile(model, dynamic=dynamic)
        began = time.perf_counter()
        for call in thunks(fast, given):
            call()
        seconds = time.perf_counter() - began
        speedups = []
        for i in random.Random(1).sample(range(len(sizes)), min(TIMED, len(sizes))):
            mine, plain = medians([harness.thunk(fast, *given[i]), harness.thunk(model, *given[i])], options.runs)
            speedups.append(plain / mine)
    return {"graphs": counters["stats"]["unique_graphs"], "seconds": seconds, "over_eager": statistics.geometric_mean(speedups)}
