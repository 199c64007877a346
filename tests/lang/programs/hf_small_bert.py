import torch
from transformers import BertConfig, BertForSequenceClassification
from support import fixed, seq, show

torch.manual_seed(0)
config = BertConfig(vocab_size=30, hidden_size=16, num_hidden_layers=2, num_attention_heads=2, intermediate_size=32, max_position_embeddings=32)
model = BertForSequenceClassification(config).eval()
with torch.no_grad():
    for step in range(5):
        ids = torch.tensor([[1, 2, 3, 4 + step]])
        out = model(ids, output_hidden_states=step == 3)
        show(out.logits, list(out.keys()), type(out).__name__)
    out = model(ids, attention_mask=torch.tensor([[1, 1, 1, 0]]), labels=torch.tensor([1]))
    show(out.loss, out.logits)
