import torch
from support import seq, show


class Note:
    def __init__(self, log):
        self.log = log

    def __enter__(self):
        self.log.append("enter")

    def __exit__(self, *info):
        self.log.append("exit")


def model(x, log):
    for i in range(3):
        with Note(log):
            x = x + i
            if i == 1:
                continue
            if i == 2:
                return x
        log.append(i)


for step in range(5):
    log = []
    show(model(seq(2, start=step), log), log)
