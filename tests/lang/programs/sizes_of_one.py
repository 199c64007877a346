"""Sizes that become one, or were: values, strides, what is a view and what a copy, and what is raised or warned of."""

import warnings

import torch

torch.manual_seed(0)


def reshaped(x):
    y = x.transpose(0, 1).reshape(-1)
    y.add_(1)  # of a copy, or of the argument itself
    return y, x


def flattened(x):
    y = x.transpose(0, 1)
    return y.flatten(), y.flatten(0, 1).data_ptr() == x.data_ptr(), y.flatten(1) is y


def contiguous(x):
    y = x.transpose(0, 1)
    z = y.contiguous()
    return z, z is y, {id(z), id(y)} == {id(z)}, y.is_contiguous()


def kept(x):
    y = (x * 2)[:, : x.shape[1] // 2 + 1].contiguous()
    z = y.contiguous()
    z.mul_(3)
    return y, z, z is y


def windows(x):
    length = x.shape[1]
    y = torch.nn.functional.pad(x, (0, (4 - length % 4) % 4))
    z = (y + 1)[:, :length].contiguous()
    z.relu_()
    return z + x, y


def broadcast(x, y):
    a, b = torch.broadcast_tensors(x, y)
    return a, b, a is x, b is y, a.stride(), (x + y).stride()


def summed(x, y):
    z = (x * y).sum_to_size(y.shape)
    return z * 2, z.shape


def squeezed(x):
    return x.squeeze(), x.squeeze(0).shape, x.unsqueeze(1).stride()


def stored(x, y):
    z = torch.zeros_like(x)
    z[:, 0] = y[0, 0]
    z[0] = y[:1]
    z[:1] = y
    return z


def one_by_one(x):
    return [row.sum() for row in x], x.split(1), torch.stack(x.unbind(1))


def norms(x):
    return torch.nn.functional.layer_norm(x, x.shape[-1:]), x.std(0), x.var(1, unbiased=False)


def trained(x):
    return torch.nn.functional.batch_norm(x, None, None, training=True)


def recurrent(x, cell=torch.nn.LSTM(4, 3, batch_first=True)):
    out, (hidden, _) = cell(x[..., None].expand(*x.shape, 4))
    return out, out.stride(), hidden.shape, out.transpose(0, 1).is_contiguous()


def marked(x, how):
    """A tensor that nobody but `contiguous` sees, with something on the object."""
    y = (x * 1).t()
    if how == "dict":
        y.__dict__["tag"] = 1
    elif how == "setattr":
        setattr(y, "tag", 1)
    elif how == "grad":
        y.grad = y * 2
    elif how == "gradient":
        y.requires_grad_()
    return y


def handed_over(x):
    results = [marked(x, how).contiguous() for how in ("dict", "setattr", "grad", "gradient", "nothing")]
    return [(hasattr(y, "tag"), y.requires_grad, y.grad is None, y.is_contiguous()) for y in results]


def inferred(x):
    with torch.inference_mode():
        z = x * 1
        return x.t().reshape(-1).is_inference(), x.t().contiguous().is_inference(), z.t().flatten().is_inference()


def ravelled(x):
    y = x * 1
    y[:, 0].ravel().add_(1)
    return y, y._version


def decided(x):
    if x.shape[0] == 1:
        return x * 2
    return x.mean(0) if x.size(1) > 1 else x - 1


def shown(value):
    if isinstance(value, torch.Tensor):
        return f"{value.dtype} {tuple(value.shape)} {value.stride()} {[round(number, 3) for number in value.flatten().tolist()]}"
    return [shown(one) for one in value] if isinstance(value, (list, tuple)) and not isinstance(value, torch.Size) else value


SIZES = (3, 4), (2, 5), (1, 4), (1, 4), (3, 1), (3, 1), (1, 1), (1, 1), (4, 4), (1, 7), (5, 1), (2, 4), (1, 3)
for size_order in (SIZES, SIZES[2:] + SIZES[:2], SIZES[::-1]):
    for function in (reshaped, flattened, contiguous, kept, windows, broadcast, summed, squeezed, stored, one_by_one, norms, trained, recurrent, handed_over, inferred, ravelled, decided):
        torch.manual_seed(0)
        with torch.no_grad(), warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always")
            for size in size_order:
                x = torch.arange(size[0] * size[1]).reshape(size).float() / 8
                arguments = (x, x[:1].clone()) if function in (broadcast, summed, stored) else (x,)
                try:
                    print(function.__name__, size, shown(function(*arguments)))
                except (RuntimeError, ValueError) as error:
                    print(function.__name__, size, type(error).__name__, str(error)[:60])
        print(len(seen))
