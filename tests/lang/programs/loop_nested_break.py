import torch
from support import seq, show


def model(x, rows):
    found = None
    for i in range(rows):
        for j in range(4):
            x = x + i * j
            if i * j == 2:
                found = (i, j)
                break
        else:
            x = x * 2
            continue
        x = x - 1
        if found and i > 1:
            break
    return x, found


for rows in (2, 2, 2, 4, 4, 2, 5):
    show(*model(seq(2), rows))
