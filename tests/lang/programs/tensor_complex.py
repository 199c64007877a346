import torch
from support import seq, show


def model(x):
    z = torch.complex(x, x * 2)
    w = z * (1 + 2j) + z.conj()
    return z, w, w.real, w.imag, w.abs(), torch.view_as_real(z), torch.fft.fft(x), (z @ z).item()


for step in range(5):
    show(*model(seq(3, start=step % 2)))
