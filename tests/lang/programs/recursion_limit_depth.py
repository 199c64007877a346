import sys
import torch
from support import seq, show

deepest = 0


def count(n):
    global deepest
    deepest = n
    return count(n + 1)


for step in range(4):
    try:
        count(0)
    except RecursionError:
        print(deepest)
sys.setrecursionlimit(3000)
for step in range(3):
    try:
        count(0)
    except RecursionError:
        print(deepest)
