import torch
from support import seq, show


def model(x, name):
    parts = name.split(".")
    if parts[-1] in {"weight", "bias"} and name.startswith("layer"):
        x = x * len(parts)
    key = "_".join(p.strip().title() for p in parts if p.isidentifier()).replace("Weight", "W")
    return x, key, name.find("."), name[::-1], name.encode()[:3], ord(name[0])


for name in ("layer.weight", "layer.weight", "layer.bias", "other", "layer.weight", "layer.3.bias"):
    show(*model(seq(2), name))
