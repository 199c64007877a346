import torch
from support import fixed, seq, show

model = fixed(torch.nn.Linear(3, 2))


def run(x):
    y = model(x).tanh()
    return y, y.is_inference(), y.requires_grad


for step in range(12):
    with torch.inference_mode((step // 3) % 2 == 1):
        show(*run(seq(2, 3, start=step % 2)))
y = run(seq(2, 3))[0]
y.sum().backward()
show(model.weight.grad)
