"""Sizes at which an operator raises or warns, met for the first time when code for others is there."""

import warnings

import torch
import torch.nn.functional as F


def group(x):
    return F.group_norm(x, 4) * 2


def normalised(x):
    return F.layer_norm(x, (16,)) + x


def spread(x):
    return x.std(0, correction=5) + 1


def masked(q, mask):
    return F.scaled_dot_product_attention(q, q, q, attn_mask=mask)


def tell(function, *given):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            result = function(*given)
        except RuntimeError as error:
            print("raises", str(error)[:60])
        else:
            print(tuple(result.shape), f"{torch.nan_to_num(result).double().abs().sum().item():.3f}")
    print([str(one.message)[:40] for one in caught])


with torch.no_grad():
    for channels in (8, 12, 16, 20, 24, 28, 18, 32, 18):
        tell(group, torch.arange(3.0 * channels * 5).reshape(3, channels, 5).sin())
    for width in (16, 16, 16, 32, 16, 32, 48):
        for rows in (2, 3, 4, 5):
            tell(normalised, torch.arange(float(rows * width)).reshape(rows, width).cos())
    for rows in (10, 11, 12, 13, 14, 4, 15, 4):
        tell(spread, torch.arange(rows * 3.0).reshape(rows, 3).sin())
    for length, seen in ((4, 4), (5, 5), (6, 6), (7, 7), (8, 5), (9, 9), (10, 9)):
        tell(masked, torch.arange(length * 16.0).reshape(1, 2, length, 8).sin(), torch.zeros(length, seen))
