"""A transformers model that writes tokens greedily, eager and under dynrun: `dynrun examples/text.py`.

The script is plain PyTorch: what is called often is recorded and replayed without being asked to.
"""

import statistics
import time

import torch
from transformers import GPT2Config, GPT2LMHeadModel

try:
    import dynrun
except ImportError:
    dynrun = None
    print("note: this is plain python; run `dynrun examples/text.py` to see dynrun's column")


def next_token(model, tokens):
    return model(tokens).logits[:, -1].argmax(-1, keepdim=True)


def write(step, model, prompt, count):
    """Slides a window of the prompt's length over the text; gives the new tokens and the milliseconds a token."""
    window, out, times = prompt, [], []
    for _ in range(count):
        began = time.perf_counter()
        token = step(model, window)
        times.append((time.perf_counter() - began) * 1e3)
        window = torch.cat([window[:, 1:], token], dim=1)
        out.append(token.item())
    return out, statistics.median(times)


torch.manual_seed(0)
model = GPT2LMHeadModel(GPT2Config(n_layer=4, use_cache=False)).eval()
prompt = torch.randint(0, model.config.vocab_size, (1, 64))

with torch.no_grad():
    expected, eager_ms = write(dynrun.disable(next_token) if dynrun else next_token, model, prompt, 12)
    tokens, fast_ms = write(next_token, model, prompt, 12)

print(f"eager   {eager_ms:8.2f} ms a token")
if dynrun:
    print(f"dynrun  {fast_ms:8.2f} ms a token   {eager_ms / fast_ms:.2f}x")
print("the same tokens" if tokens == expected else f"other tokens: {tokens} and {expected}")
