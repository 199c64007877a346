"""Indices found by topk, argmax and sort behind a write to an outside tensor: in range at some sizes, out of range at others."""
import torch
from support import seq, show

cache = torch.zeros(3)


def taken(scores, table, step):
    cache.add_(step)
    return table.take_along_dim(scores.topk(2)[1], 0) * 2


def divided(scores, table, step):
    cache.add_(step)
    best, places = scores.topk(2)
    rows = places // 3
    cache.mul_(0.5)
    return table.index_select(0, rows) + best.sum()


def largest(scores, table, step):
    cache.add_(step)
    return table[scores.argmax()] if step > 2 else table.gather(0, scores.argmax(keepdim=True))


def moved(scores, table, step):
    cache.add_(step)
    places = scores.argsort()
    places[0] = places[0] + 90 * (step == 4)
    return table.index_select(0, places[:2])


def wrapped(scores, table, step):
    cache.add_(step)
    return table.index_select(0, (scores * 50).long() % 4)


def of_what_was_written(scores, table, step):
    cache.add_(step)
    doubled = cache * 2
    return doubled.index_select(0, torch.arange(2)) + torch.where(cache > 2, cache, doubled).take_along_dim(scores.topk(1)[1] % 3, 0)


def of_a_changed_copy(scores, table, step):
    cache.add_(step)
    copy = cache.clone().view(3)
    copy.mul_(2)
    return copy.gather(0, torch.arange(3) - (step > 99))


def counted(scores, table, step):
    cache.add_(step)
    places = torch.arange(scores.shape[0] + 0.5).topk(2)[1]
    return table.gather(0, places) * 2


def run(function, scores, table, step):
    try:
        show(function(scores, table, step), cache)
    except (IndexError, RuntimeError) as error:
        show(type(error).__name__, str(error)[:40], cache)


for function in (taken, divided, largest, moved, wrapped, of_what_was_written, of_a_changed_copy, counted):
    print(function.__name__)
    cache.zero_()
    for turn in range(3):
        for count, length in ((6, 6), (6, 8), (7, 7), (9, 9), (5, 9), (9, 5), (9, 2), (12, 4), (12, 3), (9, 9), (6, 6)):
            run(function, seq(count, start=count + turn), seq(length, start=length), 1.0)
    for step in (1, 2, 3, 4, 5):
        run(function, seq(6, start=step), seq(6), step)


def ends_at(end):
    cache.add_(1)
    return seq(9).gather(0, torch.arange(end).topk(2)[1]) * 2, torch.arange(end) * 2


cache.zero_()
for end in (6.0, 7.0, 8.0, 9.0, 5.0, 12.0, 12.0, 11.0, 11.0, 7.0, 4.0, 12.0):
    try:
        show(*ends_at(end), cache)
    except (IndexError, RuntimeError) as error:
        show(type(error).__name__, cache)
