import torch
from transformers import GPT2Config, GPT2LMHeadModel
from support import show

torch.manual_seed(0)
model = GPT2LMHeadModel(GPT2Config(vocab_size=50, n_embd=16, n_layer=2, n_head=2, n_positions=32, bos_token_id=0, eos_token_id=49, pad_token_id=49)).eval()
with torch.no_grad():
    for step in range(4):
        out = model(torch.tensor([[1, 2, 3 + step % 2]]))
        show(out.logits.sum(), len(out.past_key_values))
        more = model(torch.tensor([[5]]), past_key_values=out.past_key_values)
        show(more.logits.sum(), more.past_key_values.get_seq_length())
    ids = model.generate(torch.tensor([[1, 2, 3]]), max_new_tokens=8, do_sample=False)
    show(ids)
    torch.manual_seed(1)
    show(model.generate(torch.tensor([[1, 2, 3]]), max_new_tokens=6, do_sample=True))
