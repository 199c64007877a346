"""Small functions whose operators run outside of segments, for what counting these costs (tools/bench explain)."""


def left_out():
    """36 small operators in a function that dynrun is told to leave alone."""
    import torch

    import dynrun

    @dynrun.disable
    def function(x):
        y = x
        for _ in range(36):
            y = torch.add(y, x)
        return y
    return function, (torch.randn(8, 8),)


def training_step():
    """Eight small layers, their gradients and SGD: the backward pass and the update are operators outside of segments."""
    import torch
    from torch import nn

    model = nn.Sequential(*[nn.Sequential(nn.Linear(32, 32), nn.ReLU()) for _ in range(8)])
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)

    def function(x):
        with torch.enable_grad():
            optimizer.zero_grad()
            loss = model(x).square().mean()
            loss.backward()
            optimizer.step()
        return loss
    return function, (torch.randn(16, 32),)


CASES = {"36 operators left to eager": left_out, "training step, 8 layers, SGD": training_step}
