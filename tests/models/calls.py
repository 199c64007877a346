"""Calls whose tensors are so small that host work is all they cost, for `tools/bench calls`.

CASES maps a name to a function that makes (callable, arguments).
"""

import itertools
import os

import torch
from torch import nn

CASES = {}


def case(name):
    def register(make):
        CASES[name] = make
        return make
    return register


def seeded(*shape):
    """The same numbers on every device."""
    return torch.randn(*shape, generator=torch.Generator().manual_seed(0), device="cpu").to(torch.get_default_device())


@case("4-op function")
def four_operators():
    def function(x, y):
        return torch.relu(x * y + 1) - y
    return function, (seeded(8, 8), seeded(8, 8))


@case("100 x (Linear 8x8, relu)")
def many_layers():
    torch.manual_seed(0)
    layers = [layer for _ in range(100) for layer in (nn.Linear(8, 8), nn.ReLU())]
    return nn.Sequential(*layers).eval(), (seeded(8, 8),)


@case("BERT, 12 layers, 32 wide")
def bert():
    import transformers

    torch.manual_seed(0)
    config = transformers.BertConfig(hidden_size=32, num_hidden_layers=12, num_attention_heads=2, intermediate_size=128, vocab_size=100)
    return transformers.BertModel(config).eval(), (torch.arange(8)[None],)


@case("Llama, 22 layers, 32 wide")
def llama():
    import transformers

    torch.manual_seed(0)
    config = transformers.LlamaConfig(hidden_size=32, num_hidden_layers=22, num_attention_heads=2, num_key_value_heads=2, intermediate_size=64,
                                      vocab_size=100, use_cache=False)
    return transformers.LlamaModel(config).eval(), (torch.arange(8)[None],)


@case("resnet50 at 32 px")
def resnet50():
    import torchvision

    torch.manual_seed(0)
    return torchvision.models.resnet50().eval(), (seeded(1, 3, 32, 32),)


def small_network():
    return nn.Sequential(nn.LayerNorm(8), nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 8), nn.Tanh(), nn.Linear(8, 8)).eval()


@case("5 models of a class in turns")
def in_turns():
    torch.manual_seed(0)
    models = itertools.cycle([small_network() for _ in range(5)])
    return lambda x: next(models)(x), (seeded(4, 8),)


@case("12 layers, a break behind each")
def broken_layers():
    torch.manual_seed(0)
    layers = [small_network() for _ in range(12)]

    def function(x):
        for layer in layers:
            x = layer(x)
            os.stat("/")
        return x
    return function, (seeded(4, 8),)
