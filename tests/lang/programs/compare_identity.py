import torch
from support import seq, show


def model(a, b, c):
    return (a is b, a is not c, a == b, (a == c).tolist(), a in [a, b], any(v is a for v in (c, b)), None is None, a is None, [1, 2] == [1, 2], (1, "a") < (1, "b"),
            1 < len([a, b]) < 3, not (a is b or c is None), id(a) == id(b), type(a) is type(c), a.shape == c.shape, a.shape == (2,), a.dtype == torch.float32)


x, y = seq(2), seq(2, start=1)
for step in range(8):
    print(model(x, x if step % 3 else x.clone(), y))
