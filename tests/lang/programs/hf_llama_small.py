import torch
from transformers import LlamaConfig, LlamaForCausalLM
from support import show

torch.manual_seed(0)
model = LlamaForCausalLM(LlamaConfig(vocab_size=40, hidden_size=16, intermediate_size=24, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2)).eval()
with torch.no_grad():
    for n in (3, 3, 3, 4, 3, 5):
        show(model(torch.arange(n)[None]).logits.sum(-1))
