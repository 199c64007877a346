import torch
from support import seq, show, trace

value = 2.0


def model(x):
    return x * value


def clear():
    global value
    del value


for step in range(4):
    show(model(seq(2, start=step)))
clear()
for step in range(2):
    try:
        model(seq(2))
    except NameError:
        print(trace())
value = 3.0
for step in range(3):
    show(model(seq(2, start=step)))
