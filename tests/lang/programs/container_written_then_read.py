# Containers from outside that recorded code writes and then reads, by each kind of operation; their older items are others each time.
import functools
import operator
import random

from support import seq, show


class Box:
    def __init__(self):
        self.items = [7, 8, 9]
        self.table = {"a": 1, "b": 2}


# What `items` is after `items.append(n)`, and `table` after `table["n"] = n`.
READS = {
    "window": "items.__setitem__(slice(None), items[-3:])",
    "slice": "items[-3:]",
    "step": "items[::-2]",
    "slice object": "items[slice(-3, None)]",
    "joined": "items + [0]",
    "joined before": "[0] + items",
    "repeated": "items[-2:] * 2",
    "sum": "sum(items[-4:])",
    "list": "list(items)[-4:]",
    "tuple": "tuple(items)[-4:]",
    "sorted": "sorted(items)[:3]",
    "reversed": "list(reversed(items))[:3]",
    "star": "[*items[-3:], 1]",
    "unpacked": "(lambda *rest: rest[-3:])(*items)",
    "comprehension": "[item + 1 for item in items][-3:]",
    "in": "items[-2] in items[:-1]",
    "equal": "items == [7, 8, 9]",
    "max": "(max(items), min(items[-3:]))",
    "reduce": "functools.reduce(operator.add, items[-3:], 0)",
    "zip": "list(zip(items[-3:], items))",
    "text": "','.join(map(str, items[-3:]))",
    "format": "f'{items[-3:]}'",
    "size": "seq(2, 2).new_zeros([1 + item % 2 for item in items[-2:]]).shape",
    "twice": "(items[-3:], items[-3:])",
}
DICT_READS = {
    "values": "list(table.values())",
    "items": "[(key, value) for key, value in table.items()]",
    "dict": "dict(table)",
    "display": "{**table, 'z': 0}",
    "merged": "table | {'z': 1}",
    "sum": "sum(table.values())",
    "get": "(table.get('a'), table['b'], table.get('missing', 3))",
    "equal": "table == {'a': 1, 'b': 2}",
    "size": "seq(2, 2).new_zeros([1 + value % 2 for value in table.values()]).shape",
}
PROGRAM = """
def run(box, x, n):
    y = x * 2
    {write}
    items, table = box.items, box.table
    {name} = {read}
    box.last = {name}
    return y, {name}
"""


def make(name, write, read):
    space = dict(globals())
    exec(PROGRAM.format(write=write, name="of_" + name.replace(" ", "_"), read=read), space)
    return space["run"]


random.seed(0)
for name, read in READS.items():
    box, run = Box(), make(name, "box.items.append(n)", read)
    for step in range(8):
        show(name, run(box, seq(2, start=step), 10 * step), box.items[-4:], box.last)
        del box.items[:-4]
for name, read in DICT_READS.items():
    box, run = Box(), make(name, 'box.table["n"] = n', read)
    for step in range(8):
        show(name, run(box, seq(2, start=step), 10 * step), box.table, box.last)
        if step > 2:
            box.table["a"] = random.randrange(100)
