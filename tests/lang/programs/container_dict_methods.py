import torch
from support import seq, show


def model(x, store):
    store.update(a=x, b=x * 2)
    store.setdefault("c", x * 3)
    store["d"] = store.pop("a") + store["c"]
    keys = list(store.keys())
    merged = store | {"e": x}
    return merged, keys, sum(store.values())


for step in range(6):
    show(*model(seq(2, start=step % 2), {"a": 0} if step % 2 else {}))
