# Operators that raise for what no guard looks at (data, a number, where memory begins or overlaps) when outside tensors have been
# written: each write happens once.
import torch

torch.set_num_threads(1)
F = torch.nn.functional
seen = torch.zeros(2)


def tried(name, turn, function, *arguments):
    try:
        function(*arguments)
        end = "ok"
    except (RuntimeError, IndexError) as error:
        end = type(error).__name__
    print(name, turn, end, seen.tolist(), seen._version)


def behind(operator):
    def function(*arguments):
        seen.add_(1)
        y = operator(*arguments)
        seen.mul_(0.5)
        return y * 1

    return function


def overlapping(a, b):
    c = a + b
    a.add_(1)
    b.mul_(2)
    a.sub_(b)
    return c


for turn in range(12):
    base = torch.arange(8.0)
    a, b = (base[:4], base[:4]) if turn < 2 else (base[2:6], base[:4])
    tried("overlap", turn, overlapping, a, b)
    print(base.tolist(), base._version)

as_double = behind(lambda x: x.view(torch.float64))
as_complex = behind(lambda x: torch.view_as_complex(x.view(2, 2)).abs())
for turn in range(9):
    base = torch.arange(9.0)
    x = base[:4] if turn < 4 else base[1:5]
    tried("view", turn, as_double, x)
    tried("complex", turn, as_complex, x)

L = torch.tensor
cases = {
    "cov": (lambda v: torch.cov(torch.arange(6.0).view(2, 3), fweights=v), L([1, 2, 3]), L([-1, 2, 3])),
    "fake_quantize": (lambda v: torch.fake_quantize_per_channel_affine(torch.ones(2, 2), torch.ones(2), v, 0, 0, 255), L([0, 0], dtype=torch.int32), L([-5, 900], dtype=torch.int32)),
    "searchsorted": (lambda v: torch.searchsorted(torch.arange(3.0), torch.ones(2), sorter=v), L([0, 1, 2]), L([0, 1, 9])),
    "istft": (lambda v: torch.istft(torch.ones(3, 4, dtype=torch.cfloat), 4, window=v, center=False), torch.ones(4), torch.zeros(4)),
    "celu": (lambda v: F.celu(torch.ones(2), alpha=v), 1.0, 0.0),
    "embedding_renorm": (lambda v: torch.embedding_renorm_(torch.ones(3, 2) * 3, v, 0.5, 2.0), L([0, 1, 2]), L([0, 1, 9])),
}
for name, (operator, good, bad) in cases.items():
    function = behind(operator)
    for turn in range(10):
        argument = good if turn < 5 else bad
        tried(name, turn, function, argument.clone() if torch.is_tensor(argument) else argument + 0.5 * (turn in (2, 3)))

accumulating = {
    "index_put": lambda x, v: x.index_put_((v,), torch.ones(3), accumulate=True),
    "put": lambda x, v: x.put_(v, torch.ones(3), accumulate=True),
    "scatter add": lambda x, v: x.scatter_(0, v, torch.ones(3), reduce="add"),
    "scatter multiply": lambda x, v: x.scatter_(0, v, 2.0, reduce="multiply"),
}
for name, operator in accumulating.items():
    x = torch.ones(3)

    def function(v):
        y = x * 2
        operator(x, v)
        return y

    for turn in range(10):
        tried(name, turn, function, L([0, 1, 2]) if turn < 5 else L([0, 1, 9]))
    print(name, x.tolist(), x._version)
