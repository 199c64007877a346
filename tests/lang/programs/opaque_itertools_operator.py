import itertools
import math
import operator
import torch
from support import seq, show


def model(x, n):
    a = sum(itertools.starmap(operator.mul, [(x, i) for i in range(n)]))
    b = list(itertools.accumulate([x, x, x], operator.add))
    c = operator.itemgetter(1)(b) + operator.attrgetter("T")(x.view(1, -1)).view(-1)
    d = x * math.sqrt(n) + math.floor(n / 2) + math.prod(x.shape) + divmod(n, 2)[1]
    pairs = [p + q for p, q in itertools.product((x, 2 * x), repeat=2)]
    return a, b, c, d, pairs, math.isclose(n, 3), abs(-n), round(n / 3, 2), pow(n, 2), bin(n)


for n in (2, 2, 3, 3, 2, 5):
    show(*model(seq(2), n))
