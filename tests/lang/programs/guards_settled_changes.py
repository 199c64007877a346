"""What guards take for granted once it has held a few times, changed behind their back: tensors in place, dicts of every kind."""

import collections

import torch
from torch import nn

torch.manual_seed(0)


class Holder(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.arange(6.0).reshape(2, 3), requires_grad=False)
        self.register_buffer("scale", torch.ones(2, 3))

    def forward(self, x):
        return self.weight * self.scale + x


def show(value):
    if isinstance(value, torch.Tensor):
        return type(value).__name__, str(value.dtype), tuple(value.shape), tuple(value.stride()), value.requires_grad, value.is_leaf, value.detach().flatten().tolist()[:6]
    return value


def settle(call, times=6):
    last = None
    for _ in range(times):
        last = call()
    return last


def after(title, call, change):
    """Calls until everything is taken for granted, changes something, calls again; three changes in a row make it loose."""
    try:
        before = show(settle(call))
        change()
        print(title, before, show(call()), show(settle(call)))
    except Exception as error:
        print(title, type(error).__name__, str(error).splitlines()[0][:70])


def changed(title, change):
    holder, x = Holder(), torch.ones(())
    after(title, lambda: holder(x), lambda: change(holder))


changed("data", lambda h: setattr(h.weight, "data", torch.full((2, 3), 7.0)))
changed("data, other shape", lambda h: setattr(h.weight, "data", torch.full((4, 2, 3), 7.0)))
changed("data, other dtype", lambda h: setattr(h.weight, "data", torch.full((2, 3), 7, dtype=torch.float64)))
changed("data, other strides", lambda h: setattr(h.weight, "data", torch.arange(6.0).reshape(3, 2).t()))
changed("requires_grad_", lambda h: h.weight.requires_grad_())
changed("requires_grad set", lambda h: setattr(h.scale, "requires_grad", True))
changed("resize_", lambda h: h.weight.resize_(1, 3))
changed("set_", lambda h: h.weight.set_(torch.full((3,), 2.0)))
changed("t_", lambda h: (h.weight.t_(), h.scale.t_()))
changed("unsqueeze_", lambda h: h.weight.unsqueeze_(0))
changed("swap_tensors", lambda h: torch.utils.swap_tensors(h.scale, torch.full((2, 3), 5.0)))
changed("written", lambda h: h.weight.add_(10))
changed("written through numpy", lambda h: h.weight.numpy().__setitem__((0, 0), 99.0))
changed("storage filled", lambda h: h.weight.untyped_storage().fill_(0))
changed("deleted and set", lambda h: (delattr(h, "scale"), setattr(h, "scale", 3.0)))
changed("another parameter", lambda h: setattr(h, "weight", nn.Parameter(torch.zeros(2, 3))))
changed("to double", lambda h: h.double())


class Marked(torch.Tensor):
    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        print("  seen", func.__name__ if hasattr(func, "__name__") else "get")
        return super().__torch_function__(func, types, args, kwargs or {})


def become_marked(holder):
    holder.scale.__class__ = Marked


changed("another class", become_marked)


def no_longer_leaf(holder):
    factor = torch.full((2, 3), 2.0, requires_grad=True)
    with torch.enable_grad():
        holder.scale.mul_(factor)


changed("no longer a leaf", no_longer_leaf)


def train(holder):
    """Gradients come and go, values change: nothing that a guard asks."""
    holder.weight.requires_grad_()
    optimizer = torch.optim.SGD([holder.weight], lr=0.1)
    for _ in range(8):
        optimizer.zero_grad()
        holder(torch.ones(())).square().sum().backward()
        optimizer.step()


changed("trained", train)

holder, x = Holder(), torch.ones(())
for step in range(8):  # again and again
    holder.weight.data = torch.full((2, 3), float(step))
    print("data again", settle(lambda: holder(x), 3).sum().item(), end=" ")
for step in range(8):
    holder.weight.requires_grad_(step % 2 == 0)
    print(settle(lambda: holder(x), 3).requires_grad, end=" ")
print()


# ---- hooks: ordered dicts whose length is asked for -------------------------------------------------------------------------


def hooked(title, add):
    layer = nn.Sequential(nn.Linear(3, 3), nn.ReLU())
    with torch.no_grad():
        layer[0].weight.copy_(torch.eye(3)), layer[0].bias.zero_()
    seen = []
    after(title, lambda: (layer(torch.ones(1, 3)).sum().item(), len(seen) > 0), lambda: add(layer, seen))


hooked("forward hook", lambda m, seen: m[0].register_forward_hook(lambda *a: seen.append(1)))
hooked("forward pre-hook", lambda m, seen: m[0].register_forward_pre_hook(lambda *a: seen.append(1)))
hooked("hook of the whole", lambda m, seen: m.register_forward_hook(lambda mod, args, out: out * 2))
hooked("hook put in by hand", lambda m, seen: m[1]._forward_hooks.__setitem__(0, lambda mod, args, out: out + 1))
hooked("hooks replaced", lambda m, seen: setattr(m[1], "_forward_hooks", collections.OrderedDict({0: lambda mod, args, out: out + 1})))
hooked("hooks updated", lambda m, seen: m[1]._forward_hooks.update({0: lambda mod, args, out: out - 1}))


def removed(title, remove):
    layer = nn.ReLU()
    handle = layer.register_forward_hook(lambda mod, args, out: out * 10)
    after(title, lambda: layer(torch.ones(2)), lambda: remove(layer, handle))


removed("hook removed", lambda m, handle: handle.remove())
removed("hooks cleared", lambda m, handle: m._forward_hooks.clear())
removed("hook popped", lambda m, handle: m._forward_hooks.popitem())
removed("hook deleted", lambda m, handle: dict.__delitem__(m._forward_hooks, handle.id))


# ---- dicts of all kinds ---------------------------------------------------------------------------------------------------------


class Loud(dict):
    def __setitem__(self, key, value):
        super().__setitem__(key, value * 2)


KINDS = {
    "dict": dict,
    "OrderedDict": collections.OrderedDict,
    "defaultdict": lambda items: collections.defaultdict(int, items),
    "Counter": collections.Counter,
    "subclass": Loud,
}
CHANGES = {
    "set": lambda d: d.__setitem__("a", 5),
    "added": lambda d: d.__setitem__("z", 5),
    "deleted": lambda d: d.__delitem__("b"),
    "popped": lambda d: d.pop("a"),
    "popitem": lambda d: d.popitem(),
    "cleared": lambda d: d.clear(),
    "updated": lambda d: d.update(a=7, y=8),
    "set by dict": lambda d: dict.__setitem__(d, "a", 9),
    "setdefault": lambda d: d.setdefault("w", 4),
    "moved": lambda d: d.move_to_end("a") if isinstance(d, collections.OrderedDict) else d.__setitem__("a", d.pop("a")),
    "moved to front": lambda d: d.move_to_end("c", last=False) if isinstance(d, collections.OrderedDict) else None,
    "anew": lambda d: d.__init__({"q": 1}),
}

TABLE = None


def look(x):
    found = TABLE.get("a", 100)
    for key in TABLE:
        x = x * 2 + (1 if key == "a" else 0)
    return x + found + len(TABLE) + ("z" in TABLE)


for kind, make in KINDS.items():
    for change, how in CHANGES.items():
        TABLE = make({"a": 1, "b": 2, "c": 3})
        after(f"{kind} {change}", lambda: look(torch.zeros(2)), lambda how=how: how(TABLE))


# ---- places that are to be distinct ------------------------------------------------------------------------------------------------


class Box:
    def __init__(self):
        self.value = torch.zeros(2)


def write_all(boxes, first, x):
    first.value = x
    for number, box in enumerate(boxes):
        box.value = box.value + number
    return first.value + sum(box.value for box in boxes)


boxes = [Box() for _ in range(5)]
outside = Box()
print(show(settle(lambda: write_all(boxes, outside, torch.ones(2)))))
print(show(write_all(boxes, boxes[2], torch.ones(2))), show(settle(lambda: write_all(boxes, boxes[2], torch.ones(2)))))
print(show(write_all([outside] * 3, outside, torch.ones(2))))
boxes[1].__dict__ = boxes[3].__dict__
print(show(settle(lambda: write_all(boxes, outside, torch.ones(2)))))
