import torch
import torch.nn.functional as F
from support import seq, show


def losses(x, y, labels):
    return [F.mse_loss(x, y), F.l1_loss(x, y, reduction="sum"), F.smooth_l1_loss(x, y), F.cross_entropy(x, labels, label_smoothing=0.1),
            F.nll_loss(F.log_softmax(x, 1), labels), F.binary_cross_entropy_with_logits(x, y.sigmoid()), F.kl_div(x.log_softmax(1), y.softmax(1), reduction="batchmean"),
            F.cosine_similarity(x, y), F.huber_loss(x, y)]


for step in range(5):
    x = seq(2, 3, start=step % 2).requires_grad_()
    values = losses(x, seq(2, 3, start=4), torch.tensor([0, 2]))
    show(values)
    sum(v.sum() for v in values).backward()
    show(x.grad)
