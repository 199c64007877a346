import torch
from support import seq, show


def model(x):
    s = x.to_sparse()
    y = torch.sparse.mm(s, x.T) if x.dim() == 2 else s
    return s, y, (s * 2).to_dense(), s.is_sparse, s._nnz(), x.to_sparse_csr().to_dense()


for step in range(5):
    x = seq(2, 3, start=step % 2)
    show(*model(x * (x > 0)))
