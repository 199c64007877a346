"""Sizes that tensor data decides, through operators: empty and single results, views, writes, shapes that do not fit, outside writes."""
import torch
import torchvision
from support import seq, show


def through_layers(x, w):
    rows = (x.sum(1) > 0).nonzero().squeeze(-1)
    chosen = x[rows]
    y = torch.relu(chosen @ w).softmax(-1)
    return y, y.sum(0), y.max(), y.mean(1, keepdim=True), torch.nn.functional.layer_norm(y, (y.shape[-1],)) if x.shape[0] < 3 else rows


def views(x, w):
    chosen = x[x[:, 0] > 0]
    turned, column, flat = chosen.t(), chosen[:, None], chosen.reshape(-1)
    return turned * 2, column.squeeze(1), flat, chosen, chosen.expand(2, -1, -1), chosen.unsqueeze(0).permute(1, 0, 2)


def views_of_views(x, w):
    chosen = x[x[:, 0] > 0]
    turned = chosen.t()
    return turned.is_contiguous(), turned._is_view(), chosen._is_view(), turned._base is chosen, turned


def written(x, w):
    chosen = x[x[:, 0] > 0]
    turned = chosen.t()
    chosen.add_(1)
    turned[0] = 5
    return chosen, turned


def written_through_a_row(x, w):
    chosen = x[x[:, 0] > -9]
    first, again = chosen[0], chosen[0]
    first.add_(10)
    return chosen, again, first


def scattered(x, w):
    rows = (x[:, 0] > 0).nonzero().squeeze(-1)
    out = torch.zeros_like(x)
    out.index_add_(0, rows, x[rows] * 2)
    out[rows] += 1
    out.index_copy_(0, rows[:1], x[:1]) if x.shape[0] > 3 else None
    return out, out.sum()


def written_outside(x, w):
    rows = (x[:, 0] > 0).nonzero().squeeze(-1)
    w.mul_(0.5)
    return x[rows] @ w, w


def raises_after_writing(x, w):
    small, large = x[x > 1], x[x > 0]
    w.add_(1)
    try:
        return small + large
    except RuntimeError as error:
        return str(error)


def of_two(x, w):
    a, b = x[x[:, 0] > 0], x[x[:, 1] > 0]
    return torch.cat([a, b, x]), torch.cat([a, b]).sum(0), a @ b.t()


def squeezed(x, w):
    chosen = x[x[:, 0] > 0]
    return chosen.squeeze(), chosen.sum(0).squeeze()


def sliced(x, w):
    chosen = x[x[:, 0] > 0]
    return chosen[:2], chosen[1:], chosen[:, 1:], chosen[..., :1], chosen[None]


def repeated(x, w):
    counts = (x[:, 0] > 0).long() + 1
    return torch.repeat_interleave(x, counts, dim=0) @ w, torch.unique(x.round(), return_inverse=True, return_counts=True), x.unique_consecutive(dim=0)


def two_masks(x, w):
    mask = x > 0
    return x[:, mask[0]], x[None, mask], x[mask[:, 0], 1:], w[mask[0]] * 2


def boxes(x, w):
    corners = torch.cat([x[:, :2], x[:, :2] + 1.5], 1)
    kept = torchvision.ops.nms(corners, x[:, 2], 0.2)
    return kept, corners[kept], torchvision.ops.batched_nms(corners, x[:, 2], (x[:, 1] > 0).long(), 0.1)


def lists(x, w):
    chosen = x[x[:, 0] > 0]
    return [part * 2 for part in chosen.split(1)], chosen.unbind(1), torch.stack([chosen, chosen + 1]), chosen.chunk(2)


def unread(x, w):
    chosen = x[x > 1]
    (chosen * chosen.sigmoid() - 0.3).clamp(min=-1)
    return x + 1


def in_autocast(x, w):
    with torch.autocast("cpu", dtype=torch.bfloat16):
        return x[x[:, 0] > 0] @ w


FUNCTIONS = (through_layers, views, views_of_views, written, written_through_a_row, scattered, written_outside, raises_after_writing, of_two, squeezed, sliced, repeated, two_masks, boxes, lists, unread, in_autocast)
for function in FUNCTIONS:
    for step in range(12):
        rows = 4 if step < 6 else 2 + step % 5
        x = 4 * seq(rows, 3, start=(step * 5) % 7 - 3)
        if step % 4 == 3:
            x = -x.abs() if step == 3 else x.abs()
        try:
            with torch.no_grad():
                show(function.__name__, function(x, seq(3, 3, start=step)), x)
        except Exception as error:
            show(function.__name__, type(error).__name__, str(error)[:60], x)
for step in range(6):
    x = (4 * seq(3, 3, start=step % 3)).requires_grad_()
    w = seq(3, 3, start=step).requires_grad_()
    for function in (through_layers, views, scattered, of_two, repeated):
        loss = sum(part.double().sum() for part in function(x, w) if isinstance(part, torch.Tensor))
        loss.backward()
    show(x.grad, w.grad)
