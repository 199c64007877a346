#!/usr/bin/env python3
"""Runs models that dynrun was not made on: one of each family of timm, torchvision and transformers, random weights, against eager.

Run as `dynrun tests/models/families.py [--of timm,torchvision,transformers] [--filter NAMES] [--device cuda] [--part 3/24]`; each model is a
forked child. It prints, for each, segments, captured operators and eager's time over dynrun's, then breaks and guards that missed. Wrong results, crashes and errors
fail. All of it takes about two hours, and one part of N the Nth of that (a part a process: the times are not worth much then); tools/test does
not run it. On a GPU convolutions are computed without TF32, so that results can be told from wrong ones.
"""

import argparse
import ctypes
import functools
import os
import pathlib
import re
import sys
import time
import warnings

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

import harness  # noqa: E402

dynrun = harness.under_dynrun(__file__)

import torch  # noqa: E402
import torch.utils._pytree as pytree  # noqa: E402
import zoo  # noqa: E402

# (seed, batch) of each call: the first sizes again, then others.
CALLS = [(1, 1), (2, 1), (3, 1), (4, 2), (5, 1), (6, 3), (7, 2)]
SMALLEST_FIRST = ["atto", "femto", "pico", "nano", "xxtiny", "xtiny", "tiny", "xxs", "xs", "_s", "small", "_t", "18", "b0", "micro", "mini", "_050", "_0"]
DETECTORS = ("fasterrcnn", "maskrcnn", "keypoint", "retinanet", "fcos", "ssd")
VIDEO = ("r3d", "mc3", "r2plus1d", "mvit", "swin3d", "s3d")
# Sizes of configurations, by the names that transformers' models give them.
SMALL = {64: "hidden_size d_model n_embd dim embedding_size image_size", 128: "intermediate_size ffn_dim d_ff encoder_ffn_dim decoder_ffn_dim",
         2: "num_hidden_layers num_layers n_layer n_layers encoder_layers decoder_layers num_decoder_layers num_key_value_heads num_experts_per_tok eos_token_id",
         4: "num_attention_heads n_head n_heads num_heads encoder_attention_heads decoder_attention_heads num_experts num_local_experts n_routed_experts",
         16: "head_dim d_kv kv_lora_rank v_head_dim", 32: "moe_intermediate_size shared_expert_intermediate_size projection_dim q_lora_rank",
         8: "qk_rope_head_dim qk_nope_head_dim", 256: "max_position_embeddings n_positions", 1: "n_group topk_group bos_token_id decoder_start_token_id",
         1000: "vocab_size", 0: "pad_token_id"}


def random_images(seed, batch, *shape):
    return torch.randn(batch, *shape, generator=torch.Generator().manual_seed(seed))


# ---- timm ----


def timm_names():
    import timm

    def size(name):
        return next((at for at, part in enumerate(SMALLEST_FIRST) if part in name), len(SMALLEST_FIRST)), len(name)

    families = [[name for name in timm.list_models(module=module) if not name.startswith("test_")] for module in timm.list_modules()]
    return [min(names, key=size) for names in families if names]


def make_timm(name):
    import timm

    model = timm.create_model(name, pretrained=False)
    channels, height, width = model.default_cfg.get("input_size", (3, 224, 224))
    return model, lambda seed, batch: ((random_images(seed, batch, channels, min(height, 256), min(width, 256)),), {})


# ---- torchvision ----


def torchvision_names():
    import torchvision

    families = {}
    for name in torchvision.models.list_models():
        if not name.startswith("quantized"):
            families.setdefault(re.sub(r"[_\d].*$", "", name), []).append(name)
    return [name for names in families.values() for name in names[:2]]


def make_torchvision(name):
    import torchvision

    options = {"weights": None}
    if name.startswith(DETECTORS + ("deeplab", "fcn", "lraspp")):
        options["weights_backbone"] = None
    if name.startswith(("fasterrcnn", "maskrcnn", "keypoint", "retinanet", "fcos")):
        options.update(min_size=160, max_size=192)
    model = torchvision.models.get_model(name, **options)

    def inputs(seed, batch):
        if name.startswith("raft"):
            return (random_images(seed, batch, 3, 128, 128), random_images(seed + 7, batch, 3, 128, 128)), {}
        if name.startswith(DETECTORS):
            return ([random_images(seed + image, 1, 3, 160, 192)[0] for image in range(batch)],), {}
        if name.startswith(VIDEO):
            side = 224 if "mvit" in name else 112
            return (random_images(seed, batch, 3, 16, side, side),), {}
        side = 299 if "inception" in name else 224
        return (random_images(seed, batch, 3, side, side),), {}

    return model, inputs


# ---- transformers ----


def transformers_names():
    from transformers.models.auto.modeling_auto import MODEL_MAPPING_NAMES

    return list(MODEL_MAPPING_NAMES)


def shrunk(config):
    """The sizes of a configuration's dict that are made small."""
    found = {}
    for value, names in SMALL.items():
        found.update({name: value for name in names.split() if type(config.get(name)) is int})
    for part in ("text_config", "vision_config", "audio_config", "encoder", "decoder"):
        if isinstance(config.get(part), dict):
            found[part] = {**config[part], **shrunk(config[part])}
    if isinstance(config.get("layer_types"), list):
        found["layer_types"] = config["layer_types"][:2]
    return found


def make_transformers(name):
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING
    from transformers.models.auto.modeling_auto import MODEL_MAPPING

    kind = CONFIG_MAPPING[name]
    config = kind(**shrunk(kind().to_dict()))
    model = MODEL_MAPPING[type(config)](config)
    takes, main = model.forward.__code__.co_varnames, getattr(model, "main_input_name", "input_ids")

    def inputs(seed, batch):
        generator = torch.Generator().manual_seed(seed)
        given = {}
        if main == "pixel_values" or ("pixel_values" in takes and hasattr(config, "vision_config")):
            side = getattr(config, "image_size", None) or getattr(getattr(config, "vision_config", None), "image_size", None) or 64
            side = side[0] if isinstance(side, (list, tuple)) else side
            given["pixel_values"] = torch.randn(batch, getattr(config, "num_channels", 3) or 3, side, side, generator=generator)
        if main == "input_values":
            given["input_values"] = torch.randn(batch, 4000, generator=generator)
        if main == "input_features":
            given["input_features"] = torch.randn(batch, 80, 200, generator=generator)
        if "input_ids" in takes or main == "input_ids":
            given["input_ids"] = torch.randint(3, 900, (batch, 24), generator=generator)
        if getattr(config, "is_encoder_decoder", False) and "decoder_input_ids" in takes:
            given["decoder_input_ids"] = torch.randint(3, 900, (batch, 12), generator=generator)
        return (), given

    return model, inputs


LIBRARIES = {"timm": (timm_names, make_timm), "torchvision": (torchvision_names, make_torchvision), "transformers": (transformers_names, make_transformers)}

# ---- one model ----


CALL = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.py_object)(("PyObject_CallNoArgs", ctypes.pythonapi))


def through_c(model, args, kwargs):
    """A call of the model from C, so that no loop around it is recorded."""
    return CALL(functools.partial(model, *args, **kwargs))


def milliseconds(model, args, kwargs):
    times = []
    while len(times) < 5:
        began = time.perf_counter()
        through_c(model, args, kwargs)
        if torch.cuda.is_initialized():
            torch.cuda.synchronize()
        times.append(time.perf_counter() - began)
    return sorted(times)[2] * 1e3


def leaves(value):
    """Every tensor in a nested output, in order; of caches and other objects those that they hold."""
    if isinstance(value, torch.Tensor):
        return [value]
    if isinstance(value, dict):
        value = list(value.values())
    elif hasattr(value, "__dict__") and not isinstance(value, torch.nn.Module):
        value = list(vars(value).values())
    return [tensor for item in value for tensor in leaves(item)] if isinstance(value, (list, tuple)) else []


def differences(calls, outputs, expected):
    found = []
    for (seed, batch), got, right in zip(calls, outputs, expected):
        ours, eagers = leaves(got), leaves(right)
        if [(one.dtype, one.shape, one.stride()) for one in ours] != [(one.dtype, one.shape, one.stride()) for one in eagers]:
            found.append(f"call {seed} of batch {batch}: other tensors than eager's")
        elif text := zoo.vanished(ours, eagers) or ("whole numbers differ" if any(not torch.equal(one, other) for one, other in zip(ours, eagers) if not one.is_floating_point()) else None):
            found.append(f"call {seed} of batch {batch}: {text}")
    return found


def run_eagerly(model, inputs, device):
    """The calls that eager takes, what they are given and what they give: a model need not take more than one batch."""
    calls, given, expected = [], [], []
    for seed, batch in CALLS:
        args, kwargs = pytree.tree_map_only(torch.Tensor, lambda tensor: tensor.to(device), inputs(seed, batch))
        torch.manual_seed(seed)
        try:
            expected.append(model(*args, **kwargs))
        except Exception:  # noqa: BLE001
            if batch == 1:
                raise
            continue
        calls.append((seed, batch))
        given.append((args, kwargs))
    return calls, given, expected


def magnifies_rounding(model, calls, given, expected):
    """Whether eager's own results are others in another memory format: random weights decide which boxes are kept by the last bit."""
    model.to(memory_format=torch.channels_last)
    return bool(differences(calls, [model(*args, **kwargs) for args, kwargs in given], expected))


def what_was_recorded(stats):
    """Segments, breaks and misses outside this file."""
    own = os.path.basename(__file__)
    breaks = [one for one in stats["graph_breaks"] if os.path.basename(one["file"]) != own and "__build_class__" not in one["reason"]]
    return {"segments": sum(one["count"] for one in stats["segments"] if os.path.basename(one["file"]) != own),
            "captured": f"{stats['operators_captured']}/{stats['operators_total']}",
            "breaks": [f"{one['id']} ({one['reason'][:80]}) {os.path.basename(one['file'])}:{one['line']} x{one['count']}" for one in breaks[:6]],
            "misses": [f"{one['guard']}: {one['was']}, now {one['now']}"[:120] for one in stats["guard_misses"][:6]]}


@torch.no_grad()
def check(library, name, device):
    warnings.simplefilter("ignore")
    torch.backends.cudnn.allow_tf32 = False
    torch.set_num_threads(1)
    with dynrun.disable():
        try:
            with zoo.seeded():
                model, inputs = LIBRARIES[library][1](name)
                zoo.with_head(model).eval().to(device)
            calls, given, expected = run_eagerly(model, inputs, device)
        except Exception as error:  # noqa: BLE001
            return {"skipped": f"{type(error).__name__}: {error}"[:100]}
        eager = milliseconds(model, *given[0])
    dynrun.compile(model)
    dynrun.reset_stats()
    outputs = []
    for (seed, _), (args, kwargs) in zip(calls, given):
        with dynrun.disable():
            torch.manual_seed(seed)
        outputs.append(through_c(model, args, kwargs))
    stats = dynrun.stats()
    ours = milliseconds(model, *given[0])
    with dynrun.disable():
        problems = differences(calls, outputs, expected)
        if problems and magnifies_rounding(model, calls, given, expected):
            problems = [f"note: {text}; eager differs as much from itself" for text in problems]
        return {"problems": problems, "speed": eager / ours, **what_was_recorded(stats)}


def show(library, name, answer):
    if "error" in answer:
        print(f"FAIL {library} {name}: {answer['error']}", flush=True)
        return False
    value = answer["value"]
    if "skipped" in value:
        print(f"     {name}: not made: {value['skipped']}", flush=True)
        return None
    wrong = [text for text in value["problems"] if not text.startswith("note")]
    print(f"{'FAIL' if wrong else 'ok  '} {name:40} {value['segments']:3} segments {value['captured']:>12} {value['speed']:6.2f}x", flush=True)
    for line in value["problems"] + value["breaks"] + (value["misses"] if value["segments"] > 2 else []):
        print(f"       {line}", flush=True)
    return not wrong


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--of", default=",".join(LIBRARIES))
    parser.add_argument("--filter", default="", help="only models whose name contains one of these (comma)")
    parser.add_argument("--device", default="cpu", help="cpu, cuda")
    parser.add_argument("--part", default="1/1", help="3/24: the third of each 24 models")
    options = parser.parse_args()
    part, parts = map(int, options.part.split("/"))
    wanted = [word for word in options.filter.split(",") if word]
    results = []
    models = [(library, name) for library in options.of.split(",") for name in LIBRARIES[library][0]()]
    for library, name in models[part - 1::parts]:
        if not wanted or any(word in name for word in wanted):
            results.append(show(library, name, harness.in_child(check, library, name, options.device)))
    print(f"{results.count(True)} passed, {results.count(False)} failed, {results.count(None)} skipped")
    return False in results


if __name__ == "__main__":
    sys.exit(main())
