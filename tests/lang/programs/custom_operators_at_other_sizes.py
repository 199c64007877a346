"""Operators of a library and of the program at sizes that change or that data decides: they run when the program calls them."""
import torch
import torchvision

runs = []


@torch.library.custom_op("program::scaled_rows", mutates_args=())
def scaled_rows(x: torch.Tensor, rows: torch.Tensor) -> torch.Tensor:
    runs.append(tuple(x.shape))
    if not bool(((rows >= 0) & (rows < 4)).all()):
        print("rows that the program never gave")
    return x[rows.long()] * 2


@scaled_rows.register_fake
def _(x, rows):
    return x.new_empty((rows.shape[0], x.shape[1]))


@torch.library.custom_op("program::unknown", mutates_args=())
def unknown(x: torch.Tensor) -> torch.Tensor:
    runs.append(len(x))
    return x + 1


def by_mask(x):
    rows = torch.arange(4)[x[:, 0] > 0.3]
    return scaled_rows(x, rows) + 1


def at_other_sizes(x):
    return scaled_rows(x * 2, torch.tensor([1, 3])).sum(0), unknown(x[x[:, 0] > 0.2]) * 2


def boxes(features, found, scores):
    kept = found[torchvision.ops.nms(found, scores, 0.5)]
    regions = torch.cat([torch.zeros(kept.shape[0], 1), kept], 1)
    pooled = torchvision.ops.roi_align(features, regions, (2, 2), 1.0, 2)
    return pooled.sum((1, 2, 3)), torchvision.ops.roi_pool(features, regions, 2).mean()


torch.manual_seed(0)
for turn in range(8):
    x = torch.rand(4, 3 + turn // 2)
    print(by_mask(x).round(decimals=3).tolist(), [part.round(decimals=3).tolist() for part in at_other_sizes(x)])
    corners = torch.rand(12, 2) * 20
    found = torch.cat([corners, corners + 1 + torch.rand(12, 2) * 10], 1)
    print([part.round(decimals=2).tolist() for part in boxes(torch.rand(1, 3, 32, 32), found, torch.rand(12))])
print(runs)
