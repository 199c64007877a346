import torch
from support import seq, show


def model(x):
    y = x + 1
    shared = [y, y * 2]
    return {"a": shared, "b": (shared, {"c": shared[0]}), "none": None, "text": f"{x.dim()}d", "flag": x is y, "ints": [1, 2.5]}


for step in range(6):
    out = model(seq(2, start=step % 2))
    show(out, out["a"] is out["b"][0], out["b"][1]["c"] is out["a"][0])
    out["a"].append(3)
