"""Numbers that tensor data decides (`.item()`, `.tolist()`, a tensor of one integer), given to operators as sizes, indices and scalars."""
import torch
from support import seq, show


def zeros_item(x, lengths):
    n = int(lengths.max())
    return (torch.zeros(n, 4) + x[:n]) * 2


def mask_item(x, lengths):
    n = lengths.max().item()
    mask = torch.arange(n)[None] < lengths[:, None]
    return mask.float() @ x[:n]


def split_list(x, lengths):
    a, b, c = x.split(lengths.tolist())
    return a.sum(0) + b.mean(0) + c.amax(0)


def scalar_item(x, lengths):
    s = x.sum().item()
    return x * s + s, x / (lengths.max().item() + 1), x > s


def arith(x, lengths):
    n = lengths[0].item()
    m = (n * 2 - 1) // 2 + 1
    return torch.ones(m, 3).sum(), x[n], x[n - 1, 0], x[m % 3]


def tuples(x, lengths):
    n = lengths[1].item()
    return torch.full((n, 2), 1.5).sum(0), x.new_zeros((2, n)).shape[0], torch.zeros([n, n]).sum()


def implicit(x, lengths):
    return torch.zeros(lengths[0], 4).sum(0), x.expand(lengths[1], 12, 4).sum(), torch.arange(lengths[0]).sum()


def elements(x, lengths):
    l = lengths.tolist()
    return x[: l[0]].sum(0) + x[l[0] : l[0] + l[1]].sum(0)


def views(x, lengths):
    n = lengths[0].item()
    return x[:n], x[n:], x.view(-1)[:n] * 2


def writes(x, lengths):
    y = x * 1
    n = lengths[0].item()
    y[:n] += 1
    y[n:].mul_(2)
    return y


def repeat(x, lengths):
    n = lengths[0].item()
    return x[0].repeat(n, 1).sum(), x.repeat_interleave(n, 0).sum(), torch.nn.functional.pad(x, (0, n)).sum()


def keyword(x, lengths):
    n = lengths[0].item()
    return torch.zeros(size=(n,), dtype=torch.float64).sum(), torch.narrow(x, 0, 0, n).sum(), torch.narrow(x, dim=0, start=n, length=1)


def printed(x, lengths):
    n = lengths[0].item()
    y = x[:n].sum()
    return y, n, f"{n:03d}", {"n": n}


def grads(x, lengths):
    x = x.detach().requires_grad_()
    n = lengths[0].item()
    (x[:n] ** 2).sum().backward()
    return x.grad


def roll(x, lengths):
    n = lengths[0].item()
    return x.roll(n, 0), x.topk(n, 0)[0].sum(0), torch.eye(n).sum(0).sum()


def tail(x, lengths):
    n = lengths[0].item()
    return x[-n:].sum(0), x[:-n].sum(0), x[1:n].sum(0), x[::n].sum(0)


def unwrapped(x, lengths):
    n = float(lengths[0])
    return x * n, x.clamp(max=n), x.pow(n), torch.full((2, 2), n), x + n / 3


def moving(x, lengths):
    c = x * 1
    c.add_(1)
    n = lengths[0].item()
    return c[:n].sum(0), c[n]


def outside(x, lengths):
    x.add_(1)
    n = lengths[0].item()
    y = x[:n].sum(0)
    x.sub_(1)
    return y


def loop(x, lengths):
    out = []
    for n in lengths.tolist():
        out.append(x[:n].sum(0))
    return torch.stack(out)


def dims(x, lengths):
    n = lengths[0].item()
    return x.sum(n % 2), x.unsqueeze(n % 2).shape, x.transpose(0, n % 2).shape


def raises(x, lengths):
    n = lengths[0].item() - 2
    return torch.zeros(n).sum(), x[n * 5]


def row(step, rows):
    return torch.tensor([step % 4 + 1, 3, rows - 4 - step % 4])


FUNCTIONS = (zeros_item, mask_item, split_list, scalar_item, arith, tuples, implicit, elements,
             views, writes, repeat, keyword, printed, grads, roll, tail,
             unwrapped, moving, outside, loop, dims, raises)
for function in FUNCTIONS:
    for step, rows in enumerate([12] * 7 + [10] * 3 + [12, 9]):
        try:
            result = function(seq(rows, 4, start=step), row(step, rows))
        except (RuntimeError, IndexError) as error:
            result = type(error).__name__, str(error)[:60]
        print(function.__name__, step, end=" ")
        show(*result) if isinstance(result, tuple) else show(result)


def caught(x, lengths):
    try:
        return x[lengths[0].item() + 8], "there"
    except IndexError as error:
        return x[0], str(error)


def caught_size(x, lengths):
    try:
        return torch.ones(lengths[0].item() - 3).sum(), "made"
    except RuntimeError as error:
        return x[0], str(error)[:40]


for function in (caught, caught_size):
    for step in range(16):
        print(function.__name__, step, end=" ")
        show(*function(seq(12 - step % 3, 4, start=step), row(step, 12)))


def twice(x, n):
    return torch.zeros(n, n).shape[1], torch.ones(n, 2, n).sum(), x.new_zeros(n, n).sum(0), x.repeat(n, n).sum()


def ends_and_steps(x, n):
    return torch.arange(0, n, n), torch.arange(n, n + n)


def nested(x, n):
    return torch.full((n,), n), torch.full((n, 2), n).sum()


def chunked(x, n):
    return [part.shape for part in x.chunk(n.item())], [part.sum() for part in x.tensor_split(n.item())]


for function in (twice, ends_and_steps, nested, chunked):
    for step, n in enumerate([3, 3, 3, 5, 1, 2, 4, 2]):
        print(function.__name__, step, end=" ")
        show(*function(seq(6 + step % 3, 4, start=step), torch.tensor(n)))
