"""Loops at a module's own level: every name is a global, and functions see them change."""
import torch

torch.manual_seed(0)
weight = torch.randn(4, 4)
state = torch.ones(4)
seen = []


def peek():
    return step, float(state.sum())


for step in range(40):
    state = torch.tanh(weight @ state + step * 0.01)
    if step % 9 == 0:
        seen.append(peek())
    scaled = state * len(seen)
print(step, [(n, round(v, 5)) for n, v in seen], round(float(scaled.sum()), 5))

total, n = torch.zeros(3), 0
while n < 50:
    n += 1
    if n % 7 == 0:
        continue
    total = total + n
    if n == 45:
        break
else:
    print("not reached")
print(n, total.tolist())

grid = torch.zeros(6, 6)
for row in range(6):
    for column in range(6):
        grid[row, column] = row * 10 + column
    grid[row] += grid[row].mean()
else:
    print("else", row, column)
print(grid.sum().item(), sorted(k for k in globals() if len(k) > 3 and k[0] != "_"))

for index in range(20):
    name = torch.ones(2) * index
    if index == 12:
        del name
        globals()["late"] = torch.full((2,), 5.0)
    if index > 12:
        late = late + name
print(index, late.tolist(), name.tolist())
