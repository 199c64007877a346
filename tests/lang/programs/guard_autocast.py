import torch
from support import fixed, seq, show

model = fixed(torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.ReLU(), torch.nn.Linear(4, 2)))
with torch.no_grad():
    for step in range(12):
        x = seq(2, 3, start=step % 2)
        if (step // 3) % 2:
            with torch.autocast("cpu", dtype=torch.bfloat16):
                y = model(x)
        else:
            y = model(x)
        print(y.dtype, tuple(y.shape), [round(v, 1) for v in y.float().flatten().tolist()])
