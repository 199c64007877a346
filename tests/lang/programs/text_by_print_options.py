# Texts of tensors are made by the print options as they are then, also where the same function has just set them.
import torch

options = torch._tensor_str.PRINT_OPTS
x = torch.tensor([1.2345678, 2.0])


def by_attribute(i):
    options.precision = i % 4 + 1
    return f"{x}"


def by_function(i):
    torch.set_printoptions(precision=i % 4 + 1, threshold=4 if i % 2 else 1000, edgeitems=1)
    return repr(torch.cat([x, x, x]) * 1)


def twice(i):
    y = x + i
    options.precision = i % 3 + 1
    text = str(y)
    options.precision = i % 2 + 4
    return text + f"{y!r}" + "%s" % y


def after(i):
    y = x + i
    text = f"{y}"
    options.precision = i % 4 + 1
    return text


class Shown(torch.nn.Module):
    def forward(self, i):
        options.sci_mode = bool(i % 2)
        print(x * i)
        return f"{x * i}"


for function in (by_attribute, by_function, twice, after, Shown()):
    torch.set_printoptions(profile="default")
    for i in range(9):
        print(i, function(i))
