import torch
from torch import nn
from support import fixed, seq, show

lstm, gru, cell = fixed(nn.LSTM(3, 4)), fixed(nn.GRU(3, 2, bidirectional=True)), fixed(nn.GRUCell(3, 3))
with torch.no_grad():
    for step in range(5):
        x = seq(4, 1, 3, start=step % 2)
        out, (h, c) = lstm(x)
        state = x[0]
        for t in range(4):
            state = cell(x[t], state)
        show(out, h, c, gru(x)[0], state)
