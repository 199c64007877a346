"""The models that dynrun is measured and tested on: random weights, eval, batch 1, inputs made from a seed.

Each entry makes (model, inputs): `inputs(seed)` gives the keyword or positional arguments of one call. `small=True` makes the
same architecture on smaller inputs (and, for transformers, with fewer layers), for tests.
"""

import contextlib
import copy
import dataclasses
import os
from typing import Callable

import torch

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")


@dataclasses.dataclass(frozen=True)
class Entry:
    """One model: `make(small)` gives (module in eval mode, function from a seed to (args, kwargs))."""

    name: str
    family: str
    make: Callable
    anchor: bool = False  # one of the 12 models whose geomean is reported


def image_inputs(size):
    def inputs(seed):
        generator = torch.Generator().manual_seed(seed)
        return (torch.randn(1, 3, size, size, generator=generator),), {}

    return inputs


def token_inputs(length, vocabulary, *extra):
    """Token ids under `input_ids` and each name of `extra`."""

    def inputs(seed):
        generator = torch.Generator().manual_seed(seed)
        return (), {name: torch.randint(0, vocabulary, (1, length), generator=generator) for name in ("input_ids", *extra)}

    return inputs


@contextlib.contextmanager
def seeded(seed=0):
    """Weights that are the same in every run, and the caller's random stream left alone."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        yield


def with_head(model):
    """Random numbers for the weights that a model starts as zeros (the last layer, often), or every output would be zero."""
    for parameter in model.parameters():
        if parameter.dim() > 1 and not parameter.any():
            torch.nn.init.normal_(parameter.data, std=0.02)
    return model


def vision(name, label=None, *, size=224, small_size=64, anchor=False, sized=False, **options):
    """A torchvision model; `sized` for those that fix the image size when built."""

    def make(small=False):
        import torchvision

        pixels = small_size if small else size
        extra = {"image_size": pixels} if sized else {}
        with seeded():
            model = with_head(getattr(torchvision.models, name)(weights=None, **options, **extra)).eval()
        return model, image_inputs(pixels)

    return Entry(label or name, "torchvision", make, anchor)


def timm_model(name, label=None, *, anchor=False, small_size=64, **options):
    def make(small=False):
        import timm

        pixels = small_size if small else 224
        with seeded():
            model = with_head(timm.create_model(name, pretrained=False, img_size=pixels, **options)).eval()
        return model, image_inputs(pixels)

    return Entry(label or name, "timm", make, anchor)


def bert(small=False):
    from transformers import BertConfig, BertModel

    layers, length = (2, 32) if small else (12, 128)
    with seeded():
        model = BertModel(BertConfig(num_hidden_layers=layers)).eval()
    return model, token_inputs(length, model.config.vocab_size)


def gpt2(small=False, cache=False):
    from transformers import GPT2Config, GPT2LMHeadModel

    layers, length = (2, 32) if small else (12, 128)
    with seeded():
        model = GPT2LMHeadModel(GPT2Config(n_layer=layers, use_cache=cache)).eval()
    return model, token_inputs(length, model.config.vocab_size)


def llama(small=False, cache=False):
    from transformers import LlamaConfig, LlamaForCausalLM

    layers, length = (2, 32) if small else (8, 128)
    config = LlamaConfig(hidden_size=512, intermediate_size=1376, num_hidden_layers=layers, num_attention_heads=8,
                         num_key_value_heads=8, vocab_size=32000, use_cache=cache)
    with seeded():
        model = LlamaForCausalLM(config).eval()
    return model, token_inputs(length, config.vocab_size)


def t5(small=False):
    from transformers import T5Config, T5Model

    layers, length = (2, 16) if small else (6, 64)
    with seeded():
        model = T5Model(T5Config(num_layers=layers, use_cache=False)).eval()
    return model, token_inputs(length, model.config.vocab_size, "decoder_input_ids")


def clip(small=False):
    from transformers import CLIPConfig, CLIPModel, CLIPTextConfig, CLIPVisionConfig

    layers, pixels = (2, 64) if small else (6, 224)
    config = CLIPConfig(text_config=CLIPTextConfig(num_hidden_layers=layers).to_dict(),
                        vision_config=CLIPVisionConfig(num_hidden_layers=layers, image_size=pixels).to_dict())
    with seeded():
        model = CLIPModel(config).eval()
    vocabulary = model.config.text_config.vocab_size

    def inputs(seed):
        generator = torch.Generator().manual_seed(seed)
        return (), {"input_ids": torch.randint(0, vocabulary, (1, 16), generator=generator),
                    "pixel_values": torch.randn(1, 3, pixels, pixels, generator=generator)}

    return model, inputs


MODELS = [
    vision("resnet18", anchor=True),
    vision("resnet50", anchor=True),
    vision("mobilenet_v2", anchor=True),
    vision("squeezenet1_1", anchor=True),
    vision("vgg16", anchor=True),
    vision("resnext50_32x4d", anchor=True),
    vision("mnasnet1_0", anchor=True),
    vision("alexnet", anchor=True),
    timm_model("vit_small_patch16_224", "vit_small", anchor=True),
    Entry("bert", "transformers", bert, True),
    Entry("gpt2", "transformers", gpt2, True),
    Entry("llama", "transformers", llama, True),
    vision("mobilenet_v3_large"),
    vision("densenet121"),
    vision("efficientnet_b0"),
    vision("googlenet", init_weights=False, aux_logits=False),
    vision("inception_v3", size=299, small_size=80, init_weights=False, aux_logits=False),
    vision("shufflenet_v2_x1_0"),
    vision("convnext_tiny"),
    vision("swin_t"),
    vision("vit_b_16", sized=True),
    timm_model("mixer_b16_224"),
    timm_model("resmlp_12_224", "resmlp_12"),
    Entry("t5", "transformers", t5),
    Entry("clip", "transformers", clip),
]

# Beyond the list: the same models with a key-value cache in their output.
CACHE_MODELS = [
    Entry("gpt2_cache", "transformers", lambda small=False: gpt2(small, cache=True)),
    Entry("llama_cache", "transformers", lambda small=False: llama(small, cache=True)),
]

# Beyond the list, in train mode: what only training adds to the output, and paths that are dropped at random.
TRAIN_MODELS = [
    vision("googlenet", "googlenet_aux", init_weights=False, aux_logits=True),
    vision("inception_v3", "inception_v3_aux", size=299, small_size=299, init_weights=False, aux_logits=True),
    vision("convnext_tiny", "convnext_drop_path", stochastic_depth_prob=0.5),
    timm_model("vit_small_patch16_224", "vit_drop_path", drop_path_rate=0.5, proj_drop_rate=0.2),
]


def select(names, entries=None):
    """Entries whose name contains one of the comma separated `names`; all for an empty string."""
    wanted = [name for name in names.split(",") if name]
    return [entry for entry in (MODELS if entries is None else entries)
            if not wanted or any(part in entry.name for part in wanted)]


def tensors(value):
    """Every tensor in a nested output, in order (ModelOutput, dict, tuple, list, caches)."""
    if isinstance(value, torch.Tensor):
        return [value]
    if isinstance(value, dict):
        value = list(value.values())
    elif hasattr(value, "layers") and not isinstance(value, torch.nn.Module):
        value = [item for layer in value.layers for item in (layer.keys, layer.values)]
    if isinstance(value, (list, tuple)):
        return [tensor for item in value for tensor in tensors(item)]
    return []


def in_double(model, args, kwargs):
    """The tensors of a call of a float64 copy of the model: what both engines round from."""
    def widen(value):
        return value.double() if isinstance(value, torch.Tensor) and value.is_floating_point() else value

    wide = copy.deepcopy(model).double()
    return tensors(wide(*[widen(arg) for arg in args], **{name: widen(value) for name, value in kwargs.items()}))


def vanished(got, expected):
    """What assert_close's absolute tolerance hides: a difference that is large beside the values themselves."""
    for ours, eagers in zip(tensors(got), tensors(expected)):
        if eagers.is_floating_point() and eagers.numel():
            scale, off = (value.abs().max().item() for value in (eagers, ours - eagers))
            if off > 1e-3 * scale:
                return f"off by {off:.1e} where the largest value is {scale:.1e}"
    return None


def compare(got, expected, exact):
    """How `got` differs from eager's `expected`; None where assert_close holds.

    Some random models magnify rounding so far (or hold values so small) that no two ways of computing them agree: eager with one
    thread fails assert_close against eager with two (resnet50: outputs up to 100, differences of 4e-5). Such a model is
    told by `exact()`, the float64 result: rounded to float32 it fails assert_close against eager too. Only there may `got`
    fail it, and be off from float64 by at most 1.5 times what eager itself is off; the text then begins with "note".
    """
    text = not_close(got, expected)
    if text is None:
        return None
    truth = exact()
    if not any(tensor.is_floating_point() for tensor in tensors(got)):
        return text
    if not_close([value.to(right.dtype) for value, right in zip(truth, tensors(expected), strict=True)], expected) is None:
        return f"{text}; the float64 result is close"
    for ours, eagers, right in zip(tensors(got), tensors(expected), truth, strict=True):
        off, eager_off = ((side.double() - right.double()).abs().max().item() for side in (ours, eagers))
        if not off <= 1.5 * eager_off:
            return f"{text}; from float64 {off:.1e}, eager {eager_off:.1e}"
    return f"note: float64's own result fails assert_close against eager; off by {off:.1e} from it, eager by {eager_off:.1e}"


def not_close(got, expected):
    """What assert_close says, or what its absolute tolerance hides; None where both are content."""
    try:
        torch.testing.assert_close(tensors(got), tensors(expected))
    except AssertionError as error:
        return " ".join(str(error).split())[:240]
    return vanished(got, expected)


def count_operators(function, *args, **kwargs):
    """How many operators a call gives to the dispatcher from outside: profiler events with no operator around them."""
    with torch.autograd.profiler.profile() as profile:
        function(*args, **kwargs)
    total = 0
    for event in profile.function_events:
        parent = event.cpu_parent
        while parent is not None and "::" not in parent.name:
            parent = parent.cpu_parent
        total += "::" in event.name and parent is None
    return total
