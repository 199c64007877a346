#!/usr/bin/env python3
"""How many segments functions get whose sizes and counters change. Run as `dynrun tests/lang/sizes.py [--filter=NAME]`."""

import functools
import gc
import math
import operator
import pathlib
import resource
import sys
import time
import typing

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "tests" / "models"))

import harness  # noqa: E402

dynrun = harness.under_dynrun(__file__)

import torch  # noqa: E402
import torchvision  # noqa: E402


def layers(x, w):
    n = x.shape[0]
    y = torch.relu(x @ w).view(n, 4, -1).softmax(-1).sum(1)
    return y + torch.arange(n).unsqueeze(1) / n, y.mean(0)


def packed(x):
    """A branch on a tensor that follows from sizes."""
    positions = torch.arange(x.shape[1]).unsqueeze(0)
    jumps = (torch.diff(positions, prepend=positions[:, :1] - 1, dim=-1) != 1).cumsum(-1)
    return x + positions if (jumps[:, -1] == 0).all() else x


def halves(x):
    """A size that is computed by a tensor."""
    return x.view(torch.div(x.size(0), 2, rounding_mode="trunc"), 2, x.size(1)).sum(1)


def rows(count, width=8):
    return torch.arange(count * width, dtype=torch.float32).reshape(count, width) / (count * width)


def on_each(function, inputs):
    """Calls from C, so that no caller is part of what is recorded."""
    return list(map(function, *zip(*inputs)))


def segments(function, inputs, dynamic=None):
    """How many segments the calls got; their results are checked against eager's."""
    with dynrun.disable():
        expected = [function(*given) for given in inputs]
    dynrun.reset()
    dynrun.compile(function, dynamic=dynamic)
    dynrun.reset_stats()
    results = on_each(function, inputs)
    count = dynrun.stats()["segments_compiled"]
    with dynrun.disable():
        torch.testing.assert_close(results, expected)
    return count


def numbers_made_of_numbers():
    """Each step once, however often a number is part of another: a size, a counter, an index, a slice, a comparison."""
    def doubles(x, step):
        n = x.shape[0]
        for _ in range(50):
            n, step = n + n, step + step
        if n > step:
            x = x * (n // 2 ** 50)
        start = (step + n) // 2 ** 50 - x.shape[0]
        return x[start : start + 1].expand(n // 2 ** 50, -1), x.new_ones(step // 2 ** 50), x[start - 1]

    assert segments(doubles, [(rows(n), step) for n, step in ((4, 1), (6, 2), (10, 3), (4, 2), (30, 1), (8, 7))]) <= 3


def sizes_that_tensors_hold_stay_open():
    assert segments(halves, [(rows(n),) for n in (4, 6, 10, 4, 30, 8)]) <= 2


def a_segment_for_the_first_size_and_one_for_all_others():
    w = torch.ones(8, 12)
    assert segments(layers, [(rows(n), w) for n in (3, 4, 5, 9, 17, 4, 30)]) <= 2


def a_first_size_that_never_comes_again():
    w = torch.ones(8, 12)
    for sizes, dropped in ((3, 4, 5, 3), 1), ((3, 3, 4, 5, 3), 0):  # one that was replayed is kept
        assert segments(layers, [(rows(n), w) for n in sizes]) == 2
        assert dynrun.stats()["segments_dropped"] == dropped, dynrun.stats()


def a_thousand_sizes():
    w = torch.ones(8, 12)
    sizes = [2 + (n * 37) % 1000 for n in range(1000)]
    assert segments(layers, [(rows(n), w) for n in sizes[:500]]) <= 4
    gc.collect()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    dynrun.reset_stats()
    on_each(layers, [(rows(n), w) for n in sizes])
    assert dynrun.stats()["segments_compiled"] == 0
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    assert grown < 32 * 1024, f"{grown} KiB more after as many again"


def sizes_that_are_new():
    """Where a run takes long, code is made before the first one at sizes of which others were seen."""
    w = torch.randn(1536, 1536) / 40

    def products(x):
        return torch.relu(torch.relu(torch.relu(x @ w) @ w) @ w) @ w

    assert segments(products, [(rows(n, 1536),) for n in (40, 50, 60, 50, 60, 70)]) == 2
    # A lowering that a busy machine held up puts it off for a few sizes.
    new = [(rows(n, 1536),) for n in range(80, 96)]
    dynrun.reset_stats()
    results = on_each(products, new)
    assert dynrun.stats()["compile_seconds"] > 0
    with dynrun.disable():
        torch.testing.assert_close(results, [products(*given) for given in new])


def loops_around_a_large_model():
    """Each of the model's segments serves all turns; the loop is not recorded with the model in it, once for each size."""
    model = torch.nn.Sequential(*[layer for _ in range(40) for layer in (torch.nn.Linear(8, 8), torch.nn.ReLU())])

    def serve(sizes):
        served = []
        for n in sizes:
            x = rows(n)
            for _ in range(3):
                y = model(x)
            served.append(y)
        return served

    with torch.no_grad(), dynrun.disable():
        expected = serve(range(2, 40))
    dynrun.reset()
    with torch.no_grad():
        serve(range(2, 12))
        dynrun.reset_stats()
        results = serve(range(2, 40))
    stats = dynrun.stats()
    assert stats["segments_compiled"] <= 6 and stats["segment_replays"] >= 3 * 38, stats
    with dynrun.disable():
        torch.testing.assert_close(results, expected)


def a_size_that_decides():
    assert segments(packed, [(rows(2, n),) for n in (4, 5, 6, 7, 20, 9, 30)]) <= 2


def all_sizes_open_from_the_first():
    w = torch.ones(8, 12)
    assert segments(layers, [(rows(n), w) for n in (3, 4, 5, 9, 17)], dynamic=True) == 1


def no_size_open():
    w = torch.ones(8, 12)
    assert segments(layers, [(rows(n), w) for n in (3, 4, 5, 9)], dynamic=False) == 4


def a_slice_that_takes_everything():
    def function(x, count):
        return (x * 2)[:, :count] + 1

    assert segments(function, [(rows(3), count) for count in (2, 3, 4, 8, 9, 7, 10, 11, 8, 5, 12)]) <= 5


def marked(how, dimensions, sizes=(3, 4, 5, 9)):
    inputs = [(rows(n), torch.ones(8, 12)) for n in sizes]
    for x, _ in inputs:
        setattr(x, how, dimensions)  # as torch._dynamo.mark_dynamic and mark_static do
    return segments(layers, inputs)


def marked_as_varying():
    assert marked("_dynamo_dynamic_indices", {0}) == 1


def marked_as_fixed():
    assert marked("_dynamo_static_indices", {0}) == 4


def masks_and_open_sizes():
    """What tensor data decides is never a number of the segment, whatever sizes are open."""

    def function(x):
        chosen = x[x > x.mean()]
        return chosen * 2, x.shape[0] + 1

    segments(function, [(rows(n),) for n in (3, 4, 5, 6, 7)])


def routed(x, w):
    """Rows go to the column that is largest."""
    chosen = (x @ w).argmax(-1)
    out = torch.zeros_like(x)
    for column in range(3):
        rows = (chosen == column).nonzero().squeeze(-1)
        out.index_add_(0, rows, torch.relu(x[rows] * (column + 1)) @ torch.ones(x.shape[-1], x.shape[-1]))
    return out, chosen.bincount(minlength=3)


def routes_at_changing_sizes():
    torch.manual_seed(0)
    assert segments(routed, [(torch.randn(n, 8), torch.randn(8, 3)) for n in (5, 6, 7, 12, 3, 40, 2, 9)]) <= 2


def kept_boxes_at_changing_sizes():
    def function(corners, scores):
        boxes = torch.cat([corners, corners + 0.5], 1)
        kept = torchvision.ops.nms(boxes, scores, 0.3)
        return boxes[kept] * 2, scores[kept].cumsum(0)

    torch.manual_seed(0)
    assert segments(function, [(torch.rand(n, 2), torch.rand(n)) for n in (8, 9, 10, 30, 5, 60)]) <= 2


def packed_sequences_at_changing_lengths():
    lstm = torch.nn.LSTM(4, 5, batch_first=True)

    def function(x, lengths):
        with torch.no_grad():
            sequence = torch.nn.utils.rnn.pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False)
            out, (hidden, _) = lstm(sequence)
            back, found = torch.nn.utils.rnn.pad_packed_sequence(out, batch_first=True)
            return back.sum(1), hidden, found

    torch.manual_seed(0)
    inputs = [(torch.randn(3, longest, 4), torch.randint(1, longest, (3,))) for longest in (6, 6, 7, 9, 5, 12, 6)]
    assert segments(function, inputs) <= 2


def numbers_of_tensors_at_changing_sizes():
    def function(x, lengths):
        longest = int(lengths.max())
        mask = torch.arange(longest)[None] < lengths[:, None]
        first, rest = x.split([longest, x.shape[0] - longest])
        return mask.float() @ first, rest.sum(0) / longest, x[longest - 1]

    torch.manual_seed(0)
    assert segments(function, [(torch.randn(n, 4), torch.randint(1, n, (3,))) for n in (6, 6, 7, 9, 5, 12, 6)]) <= 2


def a_while_over_a_value_called_again():
    def function(x):
        turns = 0
        while x.sum() < 1000:
            x = x * 1.01 + 0.01
            turns += 1
        return x * turns

    torch.manual_seed(0)
    assert segments(function, [(torch.rand(8),) for _ in range(6)]) <= 5


def a_python_loop_over_a_module():
    layer = torch.nn.Linear(4, 4)

    def function(x, turns):
        for i in range(turns):
            x = torch.tanh(layer(x)) * (i % 3) + x * 0.5
        return x, i

    assert segments(function, [(torch.ones(2, 4), turns) for turns in (3000, 1500, 2000, 3000)]) <= 8


def places_that_move():
    """As many elements from a place that changes: of what comes in and of what is computed."""

    def window(x, k):
        y = torch.relu_(x[:, k:k + 3] * 2)
        return y + (x * x).T[2 * k:2 * (k + 1)].sum(), x.narrow(1, k, 2) + 1, y.narrow(1, 1, 2)

    def written(x, k):
        x[:, k:k + 2] += 1
        return k

    x, v = rows(6, 2000), rows(6, 2000)
    assert segments(window, [(x, k) for k in (3, 4, 900, 3, 77, 990, *range(400, 500))]) <= 2
    assert segments(written, [(v, k) for k in (3, 4, 1900, 3, 77, 1000, *range(400, 500))]) <= 2


def batches_of_one_among_others():
    def attend(x):
        return torch.softmax(x @ x.transpose(1, 2), -1) @ x

    sizes = [(2, 5), (3, 7), (1, 6), (1, 9), (4, 11), (1, 30), (2, 3), (1, 17), (1, 4), (5, 40), (1, 2), (1, 1), (4, 1)]
    assert segments(attend, [(rows(b * n).reshape(b, n, 8),) for b, n in sizes]) <= 2
    assert segments(attend, [(rows(b * n).reshape(b, n, 8),) for b, n in ((2, 5), (1, 5), (1, 1), (3, 4), (1, 9))]) <= 2  # recorded at one


def sizes_that_vary_together():
    """A batch that changes opens heights and widths as well."""
    layer = torch.nn.Conv2d(3, 4, 3, padding=1).requires_grad_(False)

    def function(x):
        return torch.relu(layer(x)).mean((2, 3)).flatten(1)

    sizes = [(2, 8, 8), (3, 8, 8), (3, 9, 7), (1, 12, 8), (5, 1, 1), (2, 8, 8)]
    assert segments(function, [(rows(b * 3 * h, w).reshape(b, 3, h, w),) for b, h, w in sizes]) <= 2


def exceptions_of_other_things():
    """What C code raises that was given no tensor fixes no size."""

    def function(x):
        scale = 1
        try:
            scale = [1, 2].index(x.dim() + 5)
        except ValueError:
            scale = 3
        try:
            scale += int("no number")
        except ValueError:
            scale += 1
        return x * scale + x.shape[0]

    assert segments(function, [(rows(n),) for n in (3, 4, 1, 9, 17, 5)]) <= 2


def copies_that_sizes_decide():
    """Whether `contiguous` copies hangs on the padding; nobody can tell."""

    def function(x):
        length = x.shape[1]
        y = torch.nn.functional.pad(x, (0, 0, 0, (4 - length % 4) % 4))
        return x + (y * 2)[:, :length].contiguous()

    for sizes in (5, 6, 8, 7, 12, 1), (5, 8, 6, 7, 12, 1), (8, 4, 5, 12, 7, 1), (1, 8, 12, 5, 16):
        assert segments(function, [(rows(3 * n).reshape(3, n, 8),) for n in sizes]) <= 2


def slices_that_sizes_decide():
    """Slices that take everything at some sizes, which torch leaves out."""
    weight = torch.nn.Parameter(rows(12))

    def function(x, y):
        n = x.shape[1]
        whole, first, few = y[:, :n], y[:, :n, 0], y[:, : n // 2 + 3, None]
        known = x[:, :8, ::2]
        late = y[1:, :n].clone()
        late[:, :n] += 1
        return whole * 2, whole.shape, first + 1, few.sum(), known.mean(1), late, (x @ weight.detach()[:8, :n]).sum(), weight[:, :8][:n].sum()

    for sizes in ((5, 5), (5, 8), (7, 7), (9, 12), (1, 1), (3, 3), (8, 8), (2, 6)), ((8, 9), (8, 8), (5, 8), (1, 4), (3, 3)), ((3, 3), (4, 4), (8, 8), (4, 7), (1, 1), (9, 9)):
        with torch.no_grad():
            assert segments(function, [(rows(3 * n).reshape(3, n, 8), rows(3 * m).reshape(3, m, 8)) for n, m in sizes]) <= 5
        segments(function, [(rows(3 * n).reshape(3, n, 8), rows(3 * m).reshape(3, m, 8)) for n, m in sizes])


def sizes_across_a_break():
    def broken(x):
        shape = x.shape[:-1]
        if x.sum() > -1:
            x = x + 1
        return x.view(*shape, 2, -1).sum(-1) * shape[0], x[:, -shape[1]:] * 2, x.new_zeros(shape), x.view((-1,) + shape[1:])

    sizes = [(2, 5), (3, 7), (4, 6), (1, 9), (4, 11), (1, 30), (2, 3), (1, 17), (6, 4), (5, 40), (1, 2)]
    assert segments(broken, [(rows(b * n).reshape(b, n, 8),) for b, n in sizes]) <= 8


def weights_written_by_data():
    """Neither address nor version tells: what was made of them for one size is made anew for all."""
    model = torch.nn.Sequential(torch.nn.Conv1d(8, 4, 1), torch.nn.BatchNorm1d(4), torch.nn.ReLU(), torch.nn.Linear(6, 3)).eval()
    dynrun.reset()
    function = dynrun.compile(lambda x: model(x), dynamic=True)
    with torch.no_grad():
        for factor in (1, -1, 2, 0.5, -1):
            for parameter in model.parameters():
                parameter.data.mul_(factor)
            for count in (3, 5, 5, 3, 7, 5):
                x = rows(count, 48).reshape(count, 8, 6)
                with dynrun.disable():
                    expected = model(x)
                torch.testing.assert_close(function(x), expected)


def a_buffer_that_fills_up():
    """What is written at a size that never was is not copied for a rehearsal: as long as for a small buffer."""

    def fill(buffer, x, k):
        buffer[:k] = x[:k]
        return buffer[:k].sum()

    def seconds(size):
        buffer, x = torch.zeros(size, 64), torch.ones(600, 64)
        began = time.process_time()
        for k in range(20, 600):
            fill(buffer, x, k)
        return time.process_time() - began

    assert segments(fill, [(torch.zeros(700, 64), torch.ones(600, 64), k) for k in range(2, 600, 7)]) <= 3
    seconds(700)
    small, large = seconds(700), seconds(200000)
    assert large < 20 * small, f"{large:.3f} s, {small:.3f} s in a small buffer"


def a_loop_that_takes_tuples_apart():
    data = list(torch.randn(300, 4, generator=torch.Generator().manual_seed(0)))

    def function(x):
        seen = 0
        for i, (j, d) in enumerate(zip(range(5, 305), data)):
            x = x * 0.9 + d
            if x.sum() > 0:
                seen += i - j
        return x, seen

    assert segments(function, [(torch.ones(4) * n,) for n in range(4)]) <= 6


def models_of_other_widths():
    """A model has the sizes that it has: another one's weights do not leave them open, as what an object keeps from call to call does."""
    def run(model, x):
        return model(x)

    class Keeps(torch.nn.Module):
        def __init__(self, rows):
            super().__init__()
            self.scale = torch.nn.Parameter(torch.ones(4))
            self.kept = torch.arange(rows * 4.0).view(rows, 4)

        def forward(self, x):
            return (self.kept * self.scale).sum(0) + x

    def other_class(width):
        return torch.nn.Sequential(torch.nn.Linear(4, width), torch.nn.BatchNorm1d(width), torch.nn.Tanh() if width % 2 else torch.nn.ReLU())

    x = torch.randn(3, 4)
    with torch.no_grad():
        models = [torch.nn.Sequential(torch.nn.Linear(4, width), torch.nn.BatchNorm1d(width)).eval() for width in (5, 6, 7)]
        assert (found := segments(run, [(model, x) for model in models for _ in range(3)])) == 3, found
        assert (found := segments(run, [(other_class(width).eval(), x) for width in (8, 9, 8)])) == 2, found
        assert (found := segments(run, [(Keeps(rows), x) for rows in (2, 3, 4, 5, 6)])) == 2, found
        # Nor do another model's inputs leave them open: each model's own do, from the second size on.
        one, other = models[0], Keeps(2)
        assert (found := segments(run, [(model, torch.randn(rows, 4)) for model, rows in ((one, 3), (other, 5), (other, 6), (other, 7))])) == 3, found
        assert (found := segments(run, [(model, torch.randn(rows, 4)) for rows in (3, 5, 7, 9) for model in (one, other)])) == 4, found


def a_shape_in_a_message():
    def function(x):
        torch._assert(x.dim() == 2, f"two dimensions are expected, not {x.shape}")
        return x * 2

    assert segments(function, [(rows(n),) for n in (3, 4, 5, 9, 2, 17)]) == 2


class Size(typing.NamedTuple):
    rows: int
    columns: int


def numbers_that_are_put_together():
    """What sizes may go through and stay open."""
    ways = {
        "prod": lambda x: x.reshape(math.prod(x.shape)),
        "reduce": lambda x: x.reshape(functools.reduce(operator.mul, x.shape, 1)),
        "numel": lambda x: x.reshape(x.shape.numel()),
        "sum": lambda x: x * sum(x.shape) - sum([x.size(0), 1], 3),
        "max": lambda x: x * max(x.shape) - min([x.size(0), x.size(1), 100]),
        "starred": lambda x: torch.zeros(*x.shape) + torch.ones(*x.size()[:1], 1) + x,
        "tensor": lambda x: x * torch.tensor(x.size(0)) + torch.tensor(x.size(1) * 0.5),
        "tensor of several": lambda x: x.sum() * torch.tensor([x.size(0), 7, x.size(1)]) + torch.tensor(x.shape).prod(),
        "lengths": lambda x: torch.arange(x.size(0))[None] < torch.tensor([x.size(0), x.size(0) // 2])[:, None],
        "named": lambda x: x.reshape(Size(*x.shape).columns, Size(x.size(0), 1).rows),
        "enumerate": lambda x: sum(row.sum() * i for i, row in enumerate(x[:3])),
        "zip": lambda x: torch.stack([a * b for a, b in zip(x[:2], x[1:3])]),
        "list": lambda x: torch.stack(list(x[:3])) + torch.stack(tuple(map(torch.exp, x[:3]))),
    }
    for name, way in ways.items():
        count = segments(way, [(rows(n, width),) for n, width in ((3, 5), (4, 7), (9, 6), (5, 8), (11, 9), (17, 3))])
        assert count <= 2, (name, count)


CASES = [numbers_made_of_numbers, models_of_other_widths, numbers_that_are_put_together, sizes_that_are_new, loops_around_a_large_model, a_first_size_that_never_comes_again, a_shape_in_a_message, sizes_that_vary_together, copies_that_sizes_decide, slices_that_sizes_decide, exceptions_of_other_things, weights_written_by_data, batches_of_one_among_others, sizes_across_a_break, places_that_move, a_buffer_that_fills_up, a_loop_that_takes_tuples_apart, a_while_over_a_value_called_again, a_python_loop_over_a_module, sizes_that_tensors_hold_stay_open, packed_sequences_at_changing_lengths, numbers_of_tensors_at_changing_sizes, routes_at_changing_sizes, kept_boxes_at_changing_sizes, a_segment_for_the_first_size_and_one_for_all_others, a_thousand_sizes, a_size_that_decides, all_sizes_open_from_the_first, no_size_open,
         a_slice_that_takes_everything, marked_as_varying, marked_as_fixed, masks_and_open_sizes]


def main():
    wanted = next((argument.split("=", 1)[1] for argument in sys.argv[1:] if argument.startswith("--filter=")), "")
    failed = 0
    cases = [case for case in CASES if wanted in case.__name__]
    for case in cases:
        try:
            case()
        except Exception as error:
            failed += 1
            print(f"FAIL {case.__name__}: {type(error).__name__} {error}")
    print(f"{len(cases) - failed} passed, {failed} failed")
    return 1 if failed else 0


sys.exit(main())
