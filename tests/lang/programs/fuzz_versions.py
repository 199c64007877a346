"""Version counters after a replay: an instruction cut off after it ran, factories, views of outside tensors."""
import torch


def cut_after_write(x, y):
    print(y.sum().item() > 9)
    row = x[:, 0]
    row.mul_(1.25)
    return row


def listed(y):
    flat = y.reshape(-1)
    flat.zero_()
    torch._foreach_add_([y], 1.0)


def factory(x):
    return torch.randn(x.shape), torch.zeros(2), torch.rand_like(x), torch.arange(3).add_(1)


for step in range(6):
    x, y = torch.ones(2 + step % 2, 3), torch.ones(2, 3)
    with torch.inference_mode():
        cut_after_write(x, y)
    with torch.no_grad():
        listed(y)
        made = factory(y)
    print(step, x._version, y._version, [value._version for value in made])
    cut_after_write(x, y)
    print(x._version)


def literals(x, rate):
    return torch.tensor(rate), torch.tensor([1.0, 2.0]), x + 1


for step in range(4):
    with torch.inference_mode():
        print([value.is_inference() for value in literals(torch.ones(3), 0.5)])
    print([value._version for value in literals(torch.ones(3), 0.5)])
