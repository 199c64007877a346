"""A training and an evaluation loop at a module's own level."""
import torch
import torch.nn.functional as F

torch.manual_seed(3)
model = torch.nn.Sequential(torch.nn.Linear(6, 8), torch.nn.ReLU(), torch.nn.Dropout(0.2), torch.nn.Linear(8, 3))
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
inputs = torch.randn(12, 4, 6)
labels = torch.randint(0, 3, (12, 4))
history = []
for epoch in range(3):
    running = 0.0
    for batch, (x, y) in enumerate(zip(inputs, labels)):
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss = loss + 0.001 * sum((p * p).sum() for p in model.parameters())
        loss.backward()
        optimizer.step()
        running += loss.item()
    history.append(round(running, 4))
print(history)

model.eval()
correct = 0
with torch.no_grad():
    for x, y in zip(inputs, labels):
        scores = model(x)
        chosen = scores.argmax(1)
        correct += int((chosen == y).sum())
        margin = scores.softmax(1).max(1).values.mean()
print(correct, round(margin.item(), 4), loss.requires_grad, scores.requires_grad)
