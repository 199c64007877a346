import torch
from support import seq, show


def model(x):
    x.uniform_(-1, 1)
    y = torch.empty(3).normal_()
    y.exponential_().bernoulli_(0.5)
    torch.nn.init.xavier_uniform_(x.view(2, 2))
    return y, torch.multinomial(torch.tensor([0.2, 0.3, 0.5]), 2)


torch.manual_seed(2)
for step in range(5):
    x = seq(4)
    show(*model(x), x)
