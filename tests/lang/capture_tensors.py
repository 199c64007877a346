"""Modules and tensors: each function takes two float tensors of shape 4x3 and uses one construct between
operators. For capture.py."""

import functools

import torch
import torchvision
import torch.nn.functional as F
import torch.utils.checkpoint
from torch import nn

CASES = {}


def case(function):
    CASES[function.__name__] = function
    return function


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(3, 3) for _ in range(2)])
        self.heads = nn.ModuleDict({"a": nn.Linear(3, 3), "b": nn.Identity()})
        self.scales = nn.ParameterList([nn.Parameter(torch.ones(3)) for _ in range(2)])
        self.table = nn.ParameterDict({"s": nn.Parameter(torch.ones(3))})
        self.sequence = nn.Sequential(nn.Linear(3, 3), nn.ReLU(), nn.Dropout(0.5))
        self.register_buffer("offset", torch.ones(3))
        for i, p in enumerate(self.parameters()):
            with torch.no_grad():
                p.fill_(0.1 * (i + 1))


block = Block().eval()


@case
def divided_twice(x, y):
    whole = x // 2
    kept = (whole,), (x,), (y,)
    return whole + y // 3 + kept[0][0]


@case
def module_list(x, y):
    for layer in block.layers:
        x = layer(x)
    for i, layer in enumerate(block.layers):
        x = x + layer(y) * i
    return (x + block.layers[-1](y) + len(block.layers) + block.layers[:1][0](x)).detach()


@case
def module_dict(x, y):
    out = x
    for name, head in block.heads.items():
        out = out + head(y) * len(name)
    return (out + block.heads["a"](x) + ("b" in block.heads) + len(block.heads.keys())).detach()


@case
def module_sequential(x, y):
    return (block.sequence(x) + block.sequence[0](y) + len(block.sequence) + sum(m(x) for m in block.sequence)).detach()


@case
def module_parameter_list(x, y):
    for scale in block.scales:
        x = x * scale
    return (x + block.scales[0] + block.table["s"] + y).detach()


@case
def module_parameters(x, y):
    return (x + sum(p.sum() for p in block.parameters()) + len(list(block.named_parameters())) + y).detach()


@case
def module_first_parameter(x, y):
    device = next(block.parameters()).device
    dtype = next(p.dtype for p in block.parameters() if p.is_floating_point())
    return x.to(device).to(dtype) + y


@case
def module_children(x, y):
    for child in block.sequence.children():
        x = child(x)
    for name, module in block.named_modules():
        if isinstance(module, nn.Linear):
            x = x + module(y) * len(name)
    return x.detach()


@case
def module_buffers_state(x, y):
    return x * block.offset + y * len(list(block.buffers())) + len(block._buffers) + block.training


hooked = nn.Linear(3, 3)
hooked.register_forward_pre_hook(lambda module, args: (args[0] * 2,))
hooked.register_forward_hook(lambda module, args, output: output + 1)
with torch.no_grad():
    hooked.weight.fill_(0.1), hooked.bias.fill_(0.2)


@case
def module_hooks(x, y):
    return (hooked(x) + y).detach()


@case
def module_made_inside(x, y):
    return nn.ReLU()(x) + nn.Flatten(0)(y).sum() + nn.Softmax(dim=-1)(x)


@case
def functional_mix(x, y):
    image = x[None, None]
    z = F.interpolate(image, scale_factor=2, mode="bilinear", align_corners=False)
    z = F.pad(z, (1, 1, 0, 2), value=0.5)
    z = F.max_pool2d(z, 2) + F.avg_pool2d(z, 2)
    z = F.adaptive_avg_pool2d(z, (1, 2)).flatten()
    return z.sum() + F.layer_norm(x, (3,)) + F.gelu(y) + F.softmax(x, dim=1) + F.normalize(y)


@case
def functional_losses(x, y):
    return F.mse_loss(x, y) + F.cross_entropy(x, torch.tensor([0, 1, 2, 0])) + F.smooth_l1_loss(x, y) + F.cosine_similarity(x, y).sum()


@case
def tensor_methods(x, y):
    a, b = x.chunk(2)
    rows = x.split([1, 3])
    v, i = y.max(dim=1)
    return (a * b).sum() + rows[1].sum() + v[:, None] + i.float()[:, None] + x.new_zeros(3) + torch.full_like(x, 2.0) + x.numel() + x.size()[0] + y.view(*x.shape)


@case
def tensor_constructors(x, y):
    n, m = x.shape
    return x + torch.arange(m, device=x.device, dtype=x.dtype) + torch.tensor([1.0, 2.0, 3.0]) + torch.ones(n, 1) * torch.linspace(0, 1, m) + torch.eye(n, m) + torch.zeros_like(y)


@case
def tensor_einsum(x, y):
    return torch.einsum("ij,kj->ik", x, y) + torch.tensordot(x, y, dims=([1], [1]))


@case
def checkpointed(x, y):
    return torch.utils.checkpoint.checkpoint(lambda a: a * 2, x, use_reentrant=False) + y


cached_function = functools.lru_cache(maxsize=4)(lambda n: torch.arange(n).float())


@case
def cached_tensor(x, y):
    return x + cached_function(3) + y


@case
def finfo_dtypes(x, y):
    return x.clamp(min=torch.finfo(x.dtype).min / 2) + torch.iinfo(torch.int8).max + y.to(torch.float64).to(x) + (x.dtype == torch.float32) + x.is_floating_point()


@case
def results_sized_by_data(x, y):
    values, counts = torch.unique(x.round(), return_counts=True)
    return {"chosen": x[x > 0], "rows": torch.nonzero(y > 0, as_tuple=True), "values": values}, counts, torch.masked_select(x * 2, y > 0), x + y


@case
def computed_with_sizes_of_data(x, y):
    chosen = x[x > 0]
    score = chosen * chosen.sigmoid() - chosen.clamp(min=0.5)
    return (score * (score > 0)).mean() * y, score.exp(), -score


# Tensor features


@case
def tensor_out(x, y):
    out = torch.empty_like(x)
    torch.add(x, y, out=out)
    return out * 2


@case
def tensor_data(x, y):
    return x.data * 2 + y.detach()


@case
def tensor_grad_read(x, y):
    return x + y if x.grad is None else x


@case
def tensor_requires_grad_set(x, y):
    w = x.clone()
    w.requires_grad_()
    return (w * y).sum()


@case
def tensor_hook(x, y):
    w = x.clone().requires_grad_(True)
    z = w * y
    z.register_hook(lambda grad: grad * 2)
    return z


@case
def tensor_backward(x, y):
    w = x.clone().requires_grad_(True)
    (w * y).sum().backward()
    return w.grad


@case
def tensor_autograd_grad(x, y):
    w = x.clone().requires_grad_(True)
    return torch.autograd.grad((w * y).sum(), w)[0]


@case
def tensor_resize(x, y):
    z = x.clone()
    z.resize_(2, 6)
    return z + y.reshape(2, 6)


@case
def tensor_set(x, y):
    z = torch.empty(0)
    z.set_(x.clone())
    return z + y


@case
def tensor_complex(x, y):
    z = torch.complex(x, y)
    return z.conj() * z, torch.view_as_real(z), z.abs(), z.real


@case
def tensor_sparse(x, y):
    return x.to_sparse().to_dense() + y


@case
def numpy_there_and_back(x, y):
    a = (x + y).numpy()
    return torch.from_numpy(3 - a * 2) + torch.from_numpy(a + 0.5), a


@case
def tensor_tolist(x, y):
    return x + y, x[0].tolist()


@case
def tensor_random(x, y):
    torch.manual_seed(4)
    return x + torch.rand_like(y) + torch.randn(3) + torch.nn.functional.dropout(y, 0.5, True)


@case
def tensor_generator(x, y):
    g = torch.Generator().manual_seed(3)
    return x + torch.rand(3, generator=g)


@case
def func_vmap(x, y):
    return torch.func.vmap(lambda a, b: (a * b).sum())(x, y)


@case
def func_grad(x, y):
    return torch.func.grad(lambda a: (a * y).sum())(x)


@torch.library.custom_op("dynrun_capture::twice", mutates_args=())
def twice(t: torch.Tensor) -> torch.Tensor:
    return t * 2


@case
def custom_operator(x, y):
    return twice(x) + y


class Function(torch.autograd.Function):
    @staticmethod
    def forward(ctx, t):
        return t * 3

    @staticmethod
    def backward(ctx, grad):
        return grad * 3


@case
def autograd_function(x, y):
    return Function.apply(x) + y


class Wrapped(torch.Tensor):
    pass


@case
def tensor_subclass(x, y):
    return (x.as_subclass(Wrapped) + y).as_subclass(torch.Tensor)


@case
def tensor_numpy(x, y):
    return x + torch.from_numpy(y.numpy()) * 2


@case
def tensor_storage(x, y):
    return x + y * (x.data_ptr() != y.data_ptr()) + x.storage_offset() + x.untyped_storage().nbytes()


@case
def tensor_iteration(x, y):
    out = 0
    for row, other in zip(x, y):
        out = out + row * other
    return out


# Sizes and routes that depend on data.

torch.manual_seed(0)
EXPERTS = nn.ModuleList([nn.Linear(3, 3) for _ in range(3)])
GATE, LSTM, GRU = nn.Linear(3, 3), nn.LSTM(3, 4, batch_first=True), nn.GRU(3, 4, bidirectional=True)


@case
def boolean_masks(x, y):
    return (x[x > 1] * 2).sum() + y[y.abs() > 1].mean()


@case
def experts_by_weight(x, y):
    with torch.no_grad():
        weights, chosen = GATE(x).softmax(-1).topk(2)
        for index, expert in enumerate(EXPERTS):
            y = y + expert(x) * (weights * (chosen == index)).sum(-1, keepdim=True)
    return y


@case
def experts_by_routing(x, y):
    """Each expert gets the rows that chose it, as in transformers' mixtures of experts."""
    with torch.no_grad():
        weights, chosen = GATE(x).softmax(-1).topk(2)
        mask = nn.functional.one_hot(chosen, 3).permute(2, 1, 0)
        out = torch.zeros_like(y)
        for index, expert in enumerate(EXPERTS):
            place, row = torch.where(mask[index])
            current = expert(y[None, row].reshape(-1, y.shape[-1])) * weights[row, place, None]
            out.index_add_(0, row, current)
    return out


CACHE = torch.zeros(8, 3)


@case
def beams_by_topk(x, y):
    """A cache is written, then rows are taken by what topk found, as in beam search."""
    with torch.no_grad():
        CACHE.index_copy_(0, torch.arange(4), x)
        best, places = (CACHE[:4] + y).flatten().topk(4)
        rows = torch.take_along_dim(y, (places // 3)[:, None], dim=0)
        return rows * best[:, None], x.index_select(0, places // 3), CACHE + 1


@case
def edges_of_a_graph(x, y):
    source, target = (x @ y.t() > 0).nonzero(as_tuple=True)
    messages = torch.relu(x[source] - y[target])
    return torch.zeros_like(x).index_add_(0, target, messages) + y, torch.bincount(target)


@case
def kept_boxes(x, y):
    corners = torch.cat([x[:, :2], x[:, :2] + y[:, 1:].abs() + 0.5], 1)
    kept = torchvision.ops.nms(corners, y[:, 0], 0.3)
    return corners[kept] * 2, torch.cat([y[kept], kept[:, None]], 1)


@case
def rows_by_mask(x, y):
    rows = y.sum(1) > 0
    chosen = nn.functional.layer_norm(x[rows], (3,)).softmax(-1)
    y = y.clone()
    y[rows] = chosen @ x.t() @ x
    return y, chosen.mean(0), chosen.t().sum(), torch.cat([chosen, x])


@case
def graph_scatter(x, y):
    edges = torch.tensor([[0, 1, 2, 3, 1], [1, 2, 3, 0, 3]])
    sums = torch.zeros_like(x).index_add_(0, edges[1], x[edges[0]])
    degree = torch.zeros(x.shape[0]).scatter_add_(0, edges[1], torch.ones(5))
    return sums / degree.clamp(min=1)[:, None] + y


@case
def ragged_padded(x, y):
    return nn.utils.rnn.pad_sequence([x[:3], y[:2], x], batch_first=True)


@case
def repeated_by_counts(x, y):
    return torch.repeat_interleave(x, torch.tensor([1, 2, 0, 3]), dim=0) * 2, torch.bincount(y.long().flatten()) + 1


@case
def lstm_module(x, y):
    with torch.no_grad():
        return LSTM(torch.stack([x, y]))[0]


@case
def gru_module(x, y):
    with torch.no_grad():
        return GRU(torch.stack([x, y]))[0]


ORDER = [2, 0, 1]


@case
def index_of_list(x, y):
    return x[[0, 2]] + y[:, ORDER][[1, -1]], x[[0, 1, 3], [2, 1, 0]], y[..., [True, False, True]].sum()


@case
def store_by_list(x, y):
    z = x + 1
    z[:, [0, 2]] = y[:, [2, 0]]
    z[[1]] += 2
    return z


@case
def type_conversion(x, y):
    if x.type() == "torch.FloatTensor":
        x = x.type(torch.float64)
    return x + y.type(x.dtype) + y.type("torch.IntTensor")


@case
def size_given_as_tensor(x, y):
    half = torch.div(x.size(0), 2, rounding_mode="trunc")
    return x.view(half, 2, 3) * y.view(2, half, 3)
