"""A transformers model that writes tokens greedily, eager and under dynrun: `dynrun examples/text.py`.

The model is plain PyTorch: what is called often is recorded and replayed without being asked to.
"""

import contextlib
import statistics
import time

import torch
from transformers import GPT2Config, GPT2LMHeadModel

try:
    import dynrun
except ImportError:
    dynrun = None
    print("note: this is plain python; run `dynrun examples/text.py` to see dynrun's column")

torch.manual_seed(0)
model = GPT2LMHeadModel(GPT2Config(n_layer=4, use_cache=False)).eval()
prompt = torch.randint(0, model.config.vocab_size, (1, 64))


def next_token(tokens):
    return model(tokens).logits[:, -1].argmax(-1, keepdim=True)


def write(count):
    """Slides a window of the prompt's length over the text; gives the new tokens and the milliseconds a token."""
    window, times = prompt, []
    for _ in range(count):
        began = time.perf_counter()
        window = torch.cat([window[:, 1:], next_token(window)], dim=1)
        times.append((time.perf_counter() - began) * 1e3)
    return window[0, -count:].tolist(), statistics.median(times)


with torch.no_grad():
    with dynrun.disable() if dynrun else contextlib.nullcontext():
        expected, eager_ms = write(12)
    tokens, fast_ms = write(12)

print(f"eager   {eager_ms:8.2f} ms a token")
if dynrun:
    print(f"dynrun  {fast_ms:8.2f} ms a token   {eager_ms / fast_ms:.2f}x")
    print("the same tokens" if tokens == expected else f"other tokens: {tokens} and {expected}")
