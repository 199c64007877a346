import random
import torch
from support import seq, show


def model(x, seed):
    torch.manual_seed(seed)
    a = torch.rand(2)
    with torch.random.fork_rng(devices=[]):
        b = torch.rand(2)
    c = torch.rand(2)
    state = torch.get_rng_state()
    d = torch.rand(1)
    torch.set_rng_state(state)
    return a + x, torch.equal(b, c), torch.equal(d, torch.rand(1))


for seed in (1, 2, 1, 1, 3):
    show(*model(seq(2), seed))
random.seed(4)
for step in range(5):
    show((lambda x: x * random.random() + random.randint(0, 3))(seq(2)))
