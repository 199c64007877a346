import torch
from support import seq, show

CONFIG = {"scale": 2.0, "nested": {"bias": 1.0}}


def model(x):
    y = x * CONFIG["scale"] + CONFIG["nested"]["bias"]
    if "clip" in CONFIG:
        y = y.clamp(max=CONFIG["clip"])
    return y, len(CONFIG)


def run():
    for step in range(3):
        show(*model(seq(3, start=step % 2)))


run()
CONFIG["clip"] = 1.5
run()
del CONFIG["clip"]
run()
CONFIG["nested"]["bias"] = 5.0
run()
CONFIG["nested"] = {"bias": 1.0}
run()
CONFIG["other"] = 1
run()
CONFIG.clear()
CONFIG.update(scale=2.0, nested={"bias": 1.0})
run()
