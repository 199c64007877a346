import math
import torch
from support import seq, show


def model(x, a, b):
    values = [a + b, a - b, a * b, a / b, a // b, a % b, a ** 2, -a, abs(a), a < b, a == b, divmod(a, b), int(a), float(b), round(a / b, 3)]
    return x * values[3] + values[5], values, 10 ** 30 + int(a), 0.1 + 0.2 == 0.3, math.inf > a, complex(a, b)


for a, b in ((7, 2), (7, 2), (7.0, 2), (-7, 2), (7, -2), (7, 2), (2 ** 63, 3), (0.0, 5)):
    show(*model(seq(2), a, b))
