# Writes that move no version counter, of weights and statistics that were read once: each route in a process of its own.
import ctypes
import os

import torch
from torch.fx.experimental.proxy_tensor import make_fx
from torch.utils._python_dispatch import TorchDispatchMode

torch.manual_seed(0)
torch.set_num_threads(1)
aten = torch.ops.aten
noise = torch.randn(4, 4, 2, 2) * 5 + 3


def fresh():
    torch.manual_seed(1)
    return torch.nn.Sequential(torch.nn.Conv2d(3, 4, 3, padding=1), torch.nn.BatchNorm2d(4), torch.nn.ReLU(), torch.nn.Flatten(), torch.nn.Linear(64, 5)).eval()


x = torch.linspace(-1, 1, 96).reshape(2, 3, 4, 4)


def evaluate(net):
    with torch.no_grad():
        return round(net(x).abs().sum().item(), 3)


def chunks(net):
    for part in net[4].weight.unsafe_chunk(2):
        part.mul_(2)


def split(net):
    for part in torch.unsafe_split(net[4].weight, 2):
        part.mul_(2)


def split_with_sizes(net):
    for part in net[4].weight.unsafe_split_with_sizes([2, 3]):
        part.mul_(2)


def unsafe_view(net):
    aten._unsafe_view(net[4].weight, [-1]).mul_(2)


def observe(net):
    zero_point = torch.zeros(4, dtype=torch.int32)
    torch.fused_moving_avg_obs_fake_quant(torch.randn(4, 4) * 9, torch.tensor([1]), torch.tensor([1]), net[1].running_mean, net[1].running_var, torch.ones(4), zero_point, 0.5, 0, 255, 0, True)


class Calibrate(TorchDispatchMode):
    def __init__(self, net):
        super().__init__()
        self.net = net

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        self.net[1].running_var.mul_(4)
        return function(*args, **(kwargs or {}))


def calibrate(net):
    with Calibrate(net):
        torch.ones(1)


traced = []


def trace(net):
    norm = net[1].train()
    traced.append(make_fx(lambda value: norm(value))(noise))
    norm.eval()


def run_trace(net):
    traced[-1](noise)


def legit_norm(net):
    aten._native_batch_norm_legit(noise, None, None, net[1].running_mean, net[1].running_var, True, 0.5, 1e-5)


def native_norm(net):
    aten.native_batch_norm(noise, None, None, net[1].running_mean, net[1].running_var, True, 0.5, 1e-5)


def implementation_of_norm(net):
    torch._batch_norm_impl_index(noise, None, None, net[1].running_mean, net[1].running_var, True, 0.5, 1e-5, False)


def norm_with_update(net):
    aten._batch_norm_with_update(noise, None, None, net[1].running_mean, net[1].running_var, 0.5, 1e-5)


def train_in_inference_mode(net):
    with torch.inference_mode():
        net[1].train()(noise)
    net[1].eval()


def evaluate_norm(net):
    aten._native_batch_norm_legit(noise, None, None, net[1].running_mean, net[1].running_var, False, 0.5, 1e-5)


def preserve_version(net):
    with torch.autograd._unsafe_preserve_version_counter(net[4].weight):
        net[4].weight.mul_(2)


def by_address(net):
    numbers = (ctypes.c_float * 4).from_address(torch._C._data_address(net[4].weight))
    numbers[0] = 2.0


def fused_step(net):
    state = torch.zeros(5)
    torch._fused_adam_([net[4].bias], [torch.ones(5)], [state], [state.clone()], [], [torch.tensor(1.0)], lr=0.5, beta1=0.9, beta2=0.99, weight_decay=0.0, eps=1e-8, amsgrad=False, maximize=False)


for route in (chunks, split, split_with_sizes, unsafe_view, observe, calibrate, trace, run_trace, legit_norm, native_norm, implementation_of_norm, norm_with_update,
              train_in_inference_mode, evaluate_norm, preserve_version, by_address, fused_step):
    child = os.fork()
    if child:
        assert os.waitpid(child, 0)[1] == 0
        continue
    net = fresh()
    before = [evaluate(net) for _ in range(4)]
    if route is run_trace:
        trace(net)
        before += [evaluate(net) for _ in range(4)]
    with torch.no_grad():
        route(net)
    print(route.__name__, before, [evaluate(net) for _ in range(6)], flush=True)
    os._exit(0)
