"""Texts that C code gave just before: handed on, compared, looked up, formatted, kept."""
import json

import torch

log, table = [], {"even": 1.0, "odd": 2.0}


class Part:
    name = "part 0"


def kept(x, turn):
    y = x + 1
    log.append(json.dumps({"turn": turn}))
    return y * 2


def handed_on(x, turn):
    y = x + 1
    text = json.dumps([turn])
    return y * 2, text, (text, text)


def compared(x, turn):
    y = x * 2
    if json.loads('"even"' if turn % 2 == 0 else '"odd"') == "even":
        return y + 1
    return y - 1


def looked_up(x, turn):
    y = x * 2
    key = json.loads('"even"' if turn % 2 == 0 else '"odd"')
    return y * table[key]


def measured(x, turn):
    text = json.dumps("z" * turn)
    return x * len(text), text.upper(), text + "!", f"<{text}>", text[:2], "z" in text


def from_attribute(x, part):
    return x + 1, part.name, f"{part.name}?", part.name == "part 3"


def identity(x, turn):
    text = json.dumps(turn)
    pair = [text, text]
    return x + 1, pair[0] is pair[1], text is pair[0]


part = Part()
for turn in range(7):
    x = torch.ones(2) * turn
    kept(x, turn)
    y, text, both = handed_on(x, turn)
    print(y.tolist(), text, both[0] is both[1] is text)
    print(compared(x, turn).tolist(), looked_up(x, turn).tolist())
    y, *rest = measured(x, turn)
    print(y.tolist(), rest)
    part.name = f"part {turn}"
    y, *rest = from_attribute(x, part)
    print(y.tolist(), rest, rest[0] is part.name)
    print(identity(x, turn)[1:])
print(log)
