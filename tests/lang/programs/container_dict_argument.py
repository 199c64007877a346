import torch
from support import seq, show


def model(batch):
    x = batch["x"] * batch.get("scale", 2.0)
    if "bias" in batch:
        x = x + batch["bias"]
    batch["out"] = x
    return {"sum": x.sum(), "x": x, **{k: v for k, v in batch.items() if k == "scale"}}


for step in range(10):
    batch = {"x": seq(3, start=step % 2)}
    if step % 5 == 3:
        batch["bias"] = seq(3, start=9)
    if step % 5 == 4:
        batch["scale"] = 0.5
    show(model(batch), list(batch))
