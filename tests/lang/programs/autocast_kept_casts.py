"""Casts of weights that autocast keeps for a region: as it has them, also when the weight is written meanwhile."""
import torch
from support import fixed, seq, show


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b, self.norm, self.conv = torch.nn.Linear(6, 6), torch.nn.Linear(6, 4), torch.nn.LayerNorm(6), torch.nn.Conv1d(2, 3, 3)

    def forward(self, x):
        h = self.norm(torch.relu(self.a(x)) + x)
        h = torch.einsum("bi,ij->bj", h, self.a.weight)
        return torch.softmax(self.b(h), -1), torch.cat([h, x], 1), self.conv(x.view(1, 2, -1))


net = fixed(Net().eval())


def tell(outputs):
    for output in outputs:
        print(output.dtype, output.requires_grad)
        show(output.float())


def begun_inside(x):
    with torch.autocast("cpu", dtype=torch.bfloat16):
        return net(x)


def left_by_a_break(x):
    with torch.autocast("cpu", dtype=torch.bfloat16):
        h = net.a(x)
        with torch.autocast("cpu", enabled=False):
            h = net.a(h.float())
        print("break", h.dtype)
        return net.a(h), h


with torch.no_grad():
    for step in range(6):
        tell(begun_inside(seq(4, 6, start=step)))
    for step in range(6):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            tell(net(seq(4, 6, start=step)))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        for step in range(8):
            tell(net(seq(4, 6)))
            if step % 3 == 2:
                net.a.weight.add_(0.25)
                net.b.weight.data = net.b.weight.data * 2
    with torch.autocast("cpu", dtype=torch.bfloat16, cache_enabled=False):
        for step in range(6):
            tell(net(seq(4, 6)))
            net.a.weight.sub_(0.125)
    for step in range(6):
        tell(left_by_a_break(seq(4, 6, start=step)))

# A cast made without gradients is used with them, in the same region.
for step in range(8):
    with torch.autocast("cpu", dtype=torch.bfloat16):
        with torch.no_grad():
            fake = net(seq(4, 6, start=step))[1]
        loss = net(fake[:, :6].float())[1].float().square().mean()
    gradients = torch.autograd.grad(loss, [net.a.weight, net.norm.weight])
    show(gradients[0])
    print(loss.grad_fn is not None)

optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
for step in range(6):
    with torch.autocast("cpu", dtype=torch.bfloat16):
        outputs = net(seq(4, 6, start=step))
        loss = sum(output.float().square().mean() for output in outputs) + net(seq(4, 6))[1].float().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    show(loss)
    show(net.a.weight.grad)
