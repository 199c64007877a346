"""Sizes that data decides, read as numbers: `.shape`, `.size()`, `len()` of what a mask, `nonzero` or `unique` gave."""
import torch
from support import seq, show
from torch.nn.utils.rnn import pack_padded_sequence, pack_sequence, pad_packed_sequence


def given_back(x):
    kept = x[x > 0.2]
    return kept.shape, kept.size(0), len(kept), kept.shape[0]


def as_size(x):
    kept = x[x[:, 0] > 0.1]
    return torch.zeros(kept.shape[0], 2).sum(0), torch.arange(len(kept)).sum(), kept.new_ones(kept.shape).sum(), torch.zeros(kept.size()) + kept


def as_scalar(x):
    kept = x[x[:, 0] > 0.1]
    return kept.sum(0) / kept.shape[0], x * kept.size(0), kept / len(kept)


def unpacked(x):
    rows, columns = x[x[:, 0] > 0.1].shape
    return x * columns, torch.ones(rows).sum()


def known_dimension(x):
    kept = x[x[:, 0] > 0.1]
    if kept.size(-1) != 4:
        return x
    return kept.view(-1, kept.shape[1] * 1).sum(0)


def decided(x):
    kept = x[x > 0.6]
    if kept.shape[0] > 3:
        return kept * 2
    return kept - 1


def rows_of_it(x):
    kept = x[x[:, 0] > -0.9]
    return kept[0], kept[-1], kept[1, 2]


def missing_rows(x):
    kept = x[x[:, 0] > 0.8]
    return kept[1] * 2


def looped(x):
    index = (x[:, 0] > 0.3).nonzero()
    total = x.sum()
    for i in range(index.shape[0]):
        total = total + x[index[i, 0]].sum()
    return total


def compared(x):
    a, b = x[x > 0.2], x[x > 0.2] * 2
    return a.shape == b.shape, a + b if a.shape == b.shape else None


def formatted(x):
    kept = x[x > 0.2]
    return f"{kept.shape[0]} of {x.numel()}: {tuple(kept.shape)}", str(kept.shape), {"n": len(kept)}


def arithmetic(x):
    kept = x[x > 0.2]
    n = kept.shape[0] * 2 + 1
    return torch.full((n,), 0.5).sum(), torch.zeros(n // 2, n).sum(1)


def counted_rows(x):
    index, counts = (x[:, 0] > 0.1).long().unique(return_counts=True)
    return counts.new_zeros(len(index)) + counts


def packed(x, first=True):
    lengths = (x > 0.0).sum(1) + 1
    rows = torch.stack([x, x * 2, x - 1], -1)
    if not first:
        rows = rows.transpose(0, 1)
    sequence = pack_padded_sequence(rows, lengths, batch_first=first, enforce_sorted=False)
    back, found = pad_packed_sequence(sequence, batch_first=first)
    return sequence.data * 2, sequence.batch_sizes, back.sum(1), found


def packed_time_first(x):
    return packed(x, False)


def packed_to_length(x):
    sequence = pack_padded_sequence(x[:, :, None], torch.tensor([4, 3, 3] + [2] * (x.shape[0] - 3)), batch_first=True)
    return pad_packed_sequence(sequence, batch_first=True, total_length=6, padding_value=-1.0)


def packed_list(x):
    return pad_packed_sequence(pack_sequence([x, x[:3] * 2, x[:1]]))[0].sum(0)


lstm = torch.nn.LSTM(4, 3, batch_first=True)
with torch.no_grad():
    for start, parameter in enumerate(lstm.parameters()):
        parameter.copy_(seq(*parameter.shape, start=start) * 0.3)


@torch.no_grad()
def packed_through_lstm(x):
    lengths = (x[:3] > 0.0).sum(1) + 1
    sequence = pack_padded_sequence(torch.stack([x[:5], x[:5] * 2, x[:5] - 1]), lengths, batch_first=True, enforce_sorted=False)
    out, (hidden, cell) = lstm(sequence)
    return pad_packed_sequence(out, batch_first=True)[0].sum(1), hidden, cell


FUNCTIONS = (given_back, as_size, as_scalar, unpacked, known_dimension, decided, rows_of_it, missing_rows, looped, compared, formatted, arithmetic, counted_rows, packed,
             packed_time_first, packed_to_length, packed_list, packed_through_lstm)
for function in FUNCTIONS:
    for step, rows in enumerate([6] * 6 + [8, 5, 6, 7]):
        try:
            result = function(seq(rows, 4, start=step * 1.3))
        except (RuntimeError, IndexError) as error:
            result = type(error).__name__, str(error)[:60]
        print(function.__name__, step, end=" ")
        show(*result) if isinstance(result, tuple) else show(result)
