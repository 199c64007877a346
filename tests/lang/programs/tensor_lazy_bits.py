import torch
from support import seq, show


def bits(x):
    y = x.conj()
    z = torch.fft.ifft(x.real, n=6)
    return y, y.imag, y.mT, z, y * 2, torch.resolve_conj(y)


def shared(x):
    y = (x * 2).conj()
    w = y.imag
    w.mul_(3)
    return y, w


for step in range(4):
    x = torch.complex(seq(3, 4, start=step), seq(3, 4, start=step + 1))
    results = [*bits(x), *shared(x)]
    print([(t.is_conj(), t.is_neg()) for t in results])
    show(*[t.resolve_conj().resolve_neg() for t in results])
    show(*[t.resolve_conj().resolve_neg() for t in bits(x.conj())])
