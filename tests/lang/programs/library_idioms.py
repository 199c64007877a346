"""What libraries of models do around their operators: results cached by objects and shapes, back ends by class, pairs of modules unpacked."""

import functools
import gc
import weakref

import torch


class Recipe:
    def __init__(self, order):
        self.order = order


@functools.lru_cache(16)
def recipe_of(pattern, names, dimensions):
    return Recipe(tuple(pattern.split().index(name) for name in names))


made = []


def shapes_uncached(recipe, shape, lengths):
    made.append(shape)
    known = dict(lengths)
    sizes = [known.get(i, size) for i, size in enumerate(shape)]
    return sizes, list(recipe.order), [], {}


shapes_of = functools.lru_cache(4)(shapes_uncached)
BACKENDS = {torch.Tensor: "torch", torch.nn.Parameter: "parameter", int: "int"}


def backend_of(x):
    found = BACKENDS.get(type(x), None)
    return found if found is not None else "none"


def rearrange(x, pattern, *names, **lengths):
    recipe = recipe_of(pattern, names, x.ndim)
    try:
        sizes, order, reduced, added = shapes_of(recipe, x.shape, tuple((int(k[1:]), v) for k, v in lengths.items()))
    except TypeError:
        sizes, order, reduced, added = shapes_uncached(recipe, x.shape, ())
    if len(reduced) > 0 or len(added) > 0:
        raise NotImplementedError
    return x.reshape(sizes).permute(order), backend_of(x)


class Pair:
    def __init__(self, *items):
        self.items = items

    def __iter__(self):
        yield from self.items


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = torch.nn.ModuleList([torch.nn.ModuleList([torch.nn.Linear(6, 6), torch.nn.Tanh()]) for _ in range(3)])
        self.pair = Pair(torch.nn.Linear(6, 6), torch.nn.Sigmoid())

    def forward(self, x):
        for linear, activation in self.layers:
            x = activation(linear(x)) + x
        linear, activation = self.pair
        first, *rest = self.layers[0]
        return rest[0](activation(first(linear(x))))


torch.manual_seed(0)
net = Net().eval()
with torch.no_grad():
    for turn, batch in enumerate([2, 2, 2, 3, 3, 2, 4, 5, 6, 2, 2, 3, 3, 3]):
        x = torch.randn(batch, 6)
        y, name = rearrange(net(x), "a b", "b", "a")
        z, other = rearrange(y.contiguous(), "a b", "a", "b", _0=6)
        print(turn, name, other, tuple(y.shape), tuple(z.shape), round(z.sum().item(), 3), shapes_of.cache_info().hits, len(made))
    print(BACKENDS.get(type(net.layers[0][0].weight)), int in BACKENDS, type(net) in BACKENDS, backend_of(net.layers[0][0].bias))
    net.layers[0] = torch.nn.ModuleList([torch.nn.Linear(6, 6), torch.nn.ReLU(), torch.nn.ReLU()])
    try:
        net(torch.randn(2, 6))
    except ValueError as error:
        print(error)
    BACKENDS[torch.Tensor] = "other"
    print(rearrange(torch.ones(2, 3), "a b", "b", "a")[1], recipe_of.cache_info())


class Scaled(torch.nn.Module):
    sizes = (2, 3)

    @functools.lru_cache(maxsize=None)
    def scale(self, n, sizes):
        print("scale", n)
        return n * sizes[0]

    def forward(self, x):
        return (x * self.scale(x.shape[0], self.sizes)).sum()


scaled = Scaled()
for turn in range(8):
    if turn == 5:
        scaled.sizes = (7, 3)
    print(turn, scaled(torch.ones(2 + turn % 3 // 2, 3)).item(), Scaled.scale.cache_info())
dead = weakref.ref(scaled)
Scaled.scale.cache_clear()
del scaled
gc.collect()
print("freed with the cache:", dead() is None)
