"""A container that is only on the stack ends, with what it holds, at the call of its method."""

import torch
import weakref


class Told:
    def __init__(self, name):
        self.name = name

    def __del__(self):
        print("end of", self.name)


def popped(inbox, x):
    y = x * 2
    scale = inbox.pop().get("scale")
    print("after", scale)
    return y * scale


def kept(box, x):
    y = x * 2
    names = list(box.values())
    print("kept", len(names))
    return y + len(names)


for turn in range(6):
    inbox = [{"scale": turn, "told": Told(f"dict {turn}")}]
    print(popped(inbox, torch.ones(2)).tolist())
    box = {"a": Told(f"value {turn}")}
    print(kept(box, torch.ones(2)).tolist())
    del box
