"""Operators that no shape function covers, and results whose size the data decides, at sizes that change from call to call."""
import warnings

import torch
from support import seq, show

warnings.simplefilter("error")


def decomposed(x):
    square = x @ x.t() + 50 * torch.eye(x.shape[0])
    lower = torch.linalg.cholesky(square)
    return torch.cholesky_solve(x, lower).shape, torch.linalg.solve(square, x), torch.linalg.eigvalsh(square).size(), torch.logdet(square)


def unfolded(x):
    windows = torch.nn.functional.unfold(x[None, None], 2)
    return windows * 2, torch.nn.functional.fold(windows, x.shape, 2).shape, windows.size(-1)


def transformed(x):
    spectrum = torch.fft.rfft(x)
    return spectrum.abs() * 2, torch.fft.irfft(spectrum, n=x.shape[-1]) + x, torch.stft(x, 4, hop_length=2, window=torch.ones(4), return_complex=True).shape


def measured(x):
    distances = torch.cdist(x, x + 1)
    return distances.topk(2).values, distances.kthvalue(1).values, torch.pdist(x).numel(), torch.corrcoef(x).shape, x.cov().shape


def drawn(x):
    torch.manual_seed(3)
    first = torch.poisson(x.abs())
    mixed = torch.nn.functional.rrelu(x, training=True)
    return first, mixed * 2, torch.randperm(x.shape[0]), torch.rand(2)


def written(x, out):
    torch.linalg.matrix_exp(x @ x.t() / 100)
    torch.cumulative_trapezoid(x, dim=0)
    torch.logaddexp(x, x + 1, out=out)
    return out * 2, torch.searchsorted(x[0].sort().values, x[0])


def chosen(x):
    y = x * 2
    where = y > 1
    return y[where], where.nonzero(), torch.masked_select(y, where) + 1, y[where].sum(), y + 1, where.sum()


def kept_rows(x, keep):
    y = torch.relu(x)
    keep["last"] = y[y.sum(1) > 1]
    return y.sum(), keep["last"]


keep = {}
for step in range(14):
    rows, columns = 3 + step * 5 % 7, 4 + step * 3 % 5
    x = seq(rows, columns, start=step)
    show(step, decomposed(x), unfolded(x), transformed(x), measured(x))
    show(drawn(x), written(x, torch.zeros(rows, columns)), chosen(x), kept_rows(x, keep), keep)
