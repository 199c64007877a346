"""A segment's guards for people: an object a line, with what of it counts."""

import re

import dynrun

shown = dynrun._part("_names").shown
VALUE = re.compile(r"(.+?) (?:equals|is) (None|True|False|-?[\d.]+(?:e[-+]?\d+)?|'.*'|\".*\"|torch\.\w+)")
CLASS = re.compile(r"(.+) is of class (.+)")
TENSOR = re.compile(r"(.+) is a tensor (.+)")
LENGTH = re.compile(r"(.+) holds (\d+) items")
ATTRIBUTE = re.compile(r"(.+)\.(\w+(?:\[[^\]]*\])*)")
SAID_OTHERWISE = {"dict", "list", "tuple", "collections.OrderedDict", "set", "int", "float", "str", "bool", "NoneType", "Parameter", "Tensor", "module"}


def summary(words):
    """The sentences of src/engine/guard_words.h as fewer ones: how an object was found to be what it was is said in one."""
    objects, single, rest = {}, [], False
    for word in words:
        if tensor := TENSOR.fullmatch(word):
            single.append(f"{shown(tensor[1])} is a tensor {tensor[2]}")
        elif (length := LENGTH.fullmatch(word)) and not is_inner(length[1]):
            single.append(f"{shown(length[1])} holds {length[2]} items")
        elif kind := CLASS.fullmatch(word):
            rest |= not note(objects, kind[1], kind[2])
        elif value := VALUE.fullmatch(word):
            rest |= not note_value(objects, value[1], value[2])
        else:
            rest = True
    lines = [line for name, (kind, values) in objects.items() if (line := sentence(name, kind, values))]
    return [*lines, *dict.fromkeys(single), *(["classes, functions, modules and hooks that the code looks up are those it found"] if rest else [])]


def is_inner(path):
    """Of an object's or a class's own machinery, not of the program's data."""
    return path.startswith(("frame", "sys.", "torch.", "_")) or path in ("args", "kwargs") or re.search(r"\._\w+$|\.__\w+__", shown(path)) is not None


def note(objects, path, kind):
    if is_inner(path) or kind in SAID_OTHERWISE:
        return False
    objects.setdefault(shown(path), [None, {}])[0] = kind
    return True


def note_value(objects, path, value):
    if is_inner(path):
        return False
    split = ATTRIBUTE.fullmatch(shown(path))
    owner, attribute = split.groups() if split else (shown(path), "")
    objects.setdefault(owner, [None, {}])[1][attribute] = value
    return True


def sentence(name, kind, values):
    told = [f"{attribute} {value}" if attribute else value for attribute, value in values.items()]
    if kind is None:
        return f"{name} is {told[0]}" if list(values) == [""] else f"{name} has {', '.join(told)}"
    return f"{name} is a {kind}" + (f" with {', '.join(told)}" if told else "")
