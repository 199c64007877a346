# torch.utils.swap_tensors refuses tensors that anybody has a weak reference to; what is swapped in counts from then on.
import torch


def run(model, x):
    with torch.no_grad():
        return model(x)


torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.ReLU(), torch.nn.Linear(8, 2)).eval()
x = torch.randn(4, 8)
for _ in range(5):
    before = run(model, x)
other = torch.nn.Parameter(torch.randn(8, 8))
wanted = other.detach().clone()
torch.utils.swap_tensors(model[0].weight, other)
for _ in range(4):
    after = run(model, x)
    hidden = torch.relu(torch.nn.functional.linear(x, wanted, model[0].bias))
    print(torch.allclose(after, model[2](hidden), atol=1e-5), torch.equal(model[0].weight, wanted))
torch.utils.swap_tensors(model[0].weight, other)
print(torch.allclose(run(model, x), before, atol=1e-5))
