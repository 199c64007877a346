"""The generate suite of tools/bench: transformers' generate() as a whole, tokens a second beside eager's."""

import statistics
import time

import torch

import harness

NEW_TOKENS, PROMPT = 64, 12
WARM_UPS = 4  # sizes are met, compiled when they come back, and the loop itself is recorded


def gpt2():
    from transformers import GPT2Config, GPT2LMHeadModel
    return GPT2LMHeadModel(GPT2Config(n_layer=4, n_embd=256, n_head=4, vocab_size=1000, bos_token_id=1, eos_token_id=None, pad_token_id=0))


def llama():
    from transformers import LlamaConfig, LlamaForCausalLM
    return LlamaForCausalLM(LlamaConfig(num_hidden_layers=4, hidden_size=256, intermediate_size=512, num_attention_heads=4, num_key_value_heads=2,
                                        vocab_size=1000, eos_token_id=None, pad_token_id=0))


def t5():
    from transformers import T5Config, T5ForConditionalGeneration
    return T5ForConditionalGeneration(T5Config(num_layers=3, d_model=256, d_kv=64, d_ff=512, num_heads=4, vocab_size=1000, decoder_start_token_id=0,
                                               eos_token_id=None, pad_token_id=0))


MODELS = {"gpt2": gpt2, "llama": llama, "t5": t5}
DECODINGS = {"greedy": {"do_sample": False}, "sampling": {"do_sample": True, "top_k": 50, "temperature": 0.9}, "beam": {"num_beams": 4, "do_sample": False}}
CACHES = {"dynamic": {}, "static": {"cache_implementation": "static"}}
NAMES = [f"{model} {decoding} {cache}" for model in MODELS for decoding in DECODINGS for cache in CACHES]


def prepare(name, new_tokens=NEW_TOKENS):
    """The model, and a function of a seed that generates."""
    import transformers

    transformers.logging.set_verbosity_error()
    kind, decoding, cache = name.split()
    torch.manual_seed(0)
    model = MODELS[kind]().eval()
    prompt = torch.randint(2, 1000, (1, PROMPT), generator=torch.Generator().manual_seed(1))
    options = {"max_new_tokens": new_tokens, "min_new_tokens": new_tokens, "use_cache": True, **DECODINGS[decoding], **CACHES[cache]}

    def generate(seed):
        torch.manual_seed(seed)
        return model.generate(prompt, attention_mask=torch.ones_like(prompt), **options)

    return model, generate


def loop_segments(stats):
    """How many segments with operators begin in the decoding loop (the first forward pass included), and in what it calls."""
    return sum(segment["count"] for segment in stats["segments"]
               if segment["operators"] and any(function.endswith(("._sample", "._beam_search")) for function in segment["functions"]))


def measure(name, options, dynrun):
    """One row, as a dict."""
    import zoo

    torch.set_num_threads(options.threads)
    model, generate = prepare(name)
    calls = [harness.thunk(generate, (seed,)) for seed in range(2)]
    eager = [harness.eagerly(dynrun, call) for call in calls]
    expected = [call() for call in eager]
    operators = zoo.count_operators(eager[0])
    dynrun.compile(model)
    dynrun.reset_stats()
    same = all(torch.equal(calls[i % 2](), expected[i % 2]) for i in range(WARM_UPS))
    recorded = dynrun.stats()
    dynrun.reset_stats()
    tokens = calls[0]()
    settled = dynrun.stats()
    same = torch.equal(tokens, expected[0]) and same
    times = [[], []]
    began = time.perf_counter()
    for turn in range(options.runs):
        if turn >= 3 and time.perf_counter() - began > options.seconds:
            break
        for call, into in zip((eager[turn % 2], calls[turn % 2]), times):
            start = time.perf_counter()
            call()
            into.append(time.perf_counter() - start)
    eager_seconds, seconds = (statistics.median(into) for into in times)
    return {"name": name, "same": same, "captured": settled["operators_captured"], "total": settled["operators_total"], "eager_operators": operators,
            "segments": loop_segments(recorded), "all_segments": recorded["segments_compiled"], "replays": settled["segment_replays"], "skipped": settled["frames_skipped"],
            "compile_seconds": recorded["compile_seconds"], "eager_rate": NEW_TOKENS / eager_seconds, "rate": NEW_TOKENS / seconds}


def measure_peer(name, options):
    """torch.compile of the model's forward, in this plain python process: tokens a second, beside eager's there."""
    torch.set_num_threads(options.threads)
    model, generate = prepare(name)
    generate(0)
    rates = []
    for compiled in (False, True):
        if compiled:
            model.forward = torch.compile(model.forward)
            began = time.perf_counter()
            generate(0)
            first = time.perf_counter() - began
            generate(1)
        times = []
        for seed in range(3):
            start = time.perf_counter()
            generate(seed % 2)
            times.append(time.perf_counter() - start)
        rates.append(NEW_TOKENS / statistics.median(times))
    return {"eager_rate": rates[0], "rate": rates[1], "first_seconds": first}
