"""Calls bindings on small tensors, in child processes, and says what each did, seen from outside."""

import itertools
import json
import os
import signal
import sys

import torch

# Never called: they end or hang the process, or wait for another one.
NOT_CALLED = {"_initExtension", "_crash_if_csrc_asan", "_crash_if_csrc_ubsan", "_crash_if_vptr_ubsan", "_crash_if_aten_asan", "_crash_if_debug_asserts_fail",
              "_crash_if_thread_checker", "wait", "fork", "from_file"}
SECONDS = 3  # for one binding


def tensor(kind, shape, seed):
    generator = torch.Generator().manual_seed(seed)
    if kind == "float":
        return torch.rand(shape, generator=generator) + 0.25
    if kind == "grad":
        return (torch.rand(shape, generator=generator) + 0.25).requires_grad_()
    if kind == "int":
        return torch.randint(0, 2, shape, generator=generator)
    if kind == "bool":
        return torch.rand(shape, generator=generator) > 0.5
    return torch.complex(torch.rand(shape, generator=generator), torch.rand(shape, generator=generator))


VARIANTS = [("float", (3, 3)), ("float", (2, 3, 4, 4)), ("float", (4,)), ("float", ()), ("int", (3, 3)), ("int", (4,)), ("bool", (3, 3)), ("float", (2, 3, 4)),
            ("grad", (3, 3)), ("complex", (3, 3))]


def value_of(type_text, variant, seed):
    """A value for an argument of a schema; raises KeyError for types that no call is made with."""
    if type_text == "Tensor":
        return tensor(*variant, seed)
    if type_text.startswith("List[Tensor"):
        return [tensor(*variant, seed), tensor(*variant, seed + 100)]
    if type_text.startswith("List[Optional[Tensor"):
        return [torch.zeros(1, dtype=torch.long)]
    if type_text.startswith("Optional"):
        return None
    if type_text.startswith("List[int") or type_text.startswith("List[SymInt"):
        return [1, 1] if len(variant[1]) != 1 else [1]
    return {"int": 1, "SymInt": 1, "float": 0.5, "bool": False, "number": 1, "Scalar": 1, "str": "mean", "Device": torch.device("cpu"), "complex": 1j,
            "List[float]": [1.0, 1.0], "List[bool]": [True, True]}[type_text]


def calls_by_schema(operator, variant, seed, method):
    """(positional, keyword) arguments of calls of an operator, by its schemas."""
    for schema in torch._C._jit_get_schemas_for_operator(operator):
        positional, keyword = [], {}
        try:
            for argument in schema.arguments:
                if argument.has_default_value():
                    continue
                value = value_of(str(argument.type), variant, seed + len(positional))
                if argument.kwarg_only:
                    keyword[argument.name] = value
                else:
                    positional.append(value)
        except KeyError:
            continue
        if not method or (positional and isinstance(positional[0], torch.Tensor)):
            yield positional, keyword


def calls_by_guess(variant, seed, method):
    first = [tensor(*variant, seed)]
    rests = [[], [1], [0, 1], [tensor(*variant, seed + 1)], [torch.float64], [[1.0, 2.0]], [(2, 2)], [False], ["cpu"], [torch.contiguous_format]]
    for rest in rests:
        yield first + rest, {}
        if not method:
            yield list(rest), {}


def facts(value):
    """What a program can see of a tensor, but for its contents."""
    if not isinstance(value, torch.Tensor) or value.layout is not torch.strided:
        return None
    grad = value.grad if value.is_leaf else None
    return (tuple(value.shape), value.stride(), value.storage_offset(), value.dtype, value.requires_grad, value.is_leaf, grad is None, value._version,
            value.data_ptr(), value.untyped_storage().nbytes(), value.is_inference(), type(value), value.retains_grad, value._backward_hooks is None)


def contents(value):
    try:
        return value.detach().clone().contiguous().view(-1).view(torch.uint8).tolist() if value.numel() else []
    except RuntimeError:
        return None


def world():
    return (torch.get_default_dtype(), torch.is_grad_enabled(), torch.is_inference_mode_enabled(), torch.get_num_threads(),
            torch.are_deterministic_algorithms_enabled(), torch.get_rng_state().tolist()[:64], torch.is_autocast_enabled("cpu"), torch.is_anomaly_enabled(),
            torch.get_float32_matmul_precision(), torch.backends.mkldnn.enabled, torch.get_autocast_dtype("cpu"), torch.is_autocast_cache_enabled(),
            torch._C._len_torch_function_stack(), torch._C._len_torch_dispatch_stack(), torch._C._is_torch_function_enabled())


def flat(value):
    if isinstance(value, (list, tuple)):
        return list(itertools.chain.from_iterable(map(flat, value)))
    return [value]


PLAIN = (int, float, bool, str, type(None), type(NotImplemented), torch.dtype, torch.device, torch.layout, torch.memory_format, complex)


def observe_call(call, positional, keyword, count):
    """What one call did: a set of words, and the plain part of its result."""
    arguments = [value for value in flat(positional) + list(keyword.values()) if isinstance(value, torch.Tensor)]
    before = [(facts(argument), contents(argument)) for argument in arguments], world()
    start = count()
    try:
        result, failed = call(*positional, **keyword), False
    except TypeError:
        return set(), None, True  # refused by the binding; the message may have printed tensors
    except (Exception, SystemExit):
        result, failed = None, True
    dispatched = count() != start
    if failed:
        return ({"dispatches"} if dispatched else set()), None, True
    after = [(facts(argument), contents(argument)) for argument in arguments], world()
    did = set()
    if dispatched:
        return {"dispatches"}, None, False
    if before != after:
        did.add("changes state")
    results = flat(result)
    if any(isinstance(value, torch.Tensor) and all(value is not argument for argument in arguments) for value in results):
        did.add("makes a tensor")
    if not all(isinstance(value, (*PLAIN, torch.Tensor)) for value in results):
        did.add("gives an object")
    return did, repr([value for value in results if isinstance(value, PLAIN)]), False


def observe_one(key, binding, given, count):
    """The words for one binding; None when no call went through."""
    group, name = key
    method = group == "Tensor"
    if type(binding).__name__ == "getset_descriptor":
        call, makers = binding.__get__, [lambda variant, seed: [([tensor(*variant, seed)], {})]]
    else:
        call = getattr(binding, "__func__", binding)
        spaces = {"torch": "aten::", "nn": "aten::", "Tensor": "aten::", "aten": "aten::", "fft": "aten::", "linalg": "aten::", "special": "aten::"}
        operator = spaces.get(group, "aten::") + name
        makers = [lambda variant, seed: calls_by_schema(operator, variant, seed, method), lambda variant, seed: calls_by_guess(variant, seed, method)]
    words, called = set(), False
    for variant, make in itertools.product(VARIANTS, makers):
        # Twice, with other contents: what differs was read from them.
        for one, other in zip(make(variant, 1), make(variant, 50)):
            did, plain, failed = observe_call(call, *one, count)
            words |= did
            called = called or not failed or bool(did)
            if failed or "dispatches" in did:
                continue
            again, plain_again, failed_again = observe_call(call, *other, count)
            words |= again
            if not failed_again and "dispatches" not in again and plain != plain_again:
                words.add("reads data")
    return sorted(words) if called else None


def worker(keys, bindings, classes, count, out):
    devnull = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2):
        os.dup2(devnull, descriptor)
    torch.set_num_threads(1)
    for key in keys:
        signal.alarm(SECONDS)
        words = observe_one(key, bindings[key], classes[key], count)
        signal.alarm(0)
        os.write(out, (json.dumps([key, words]) + "\n").encode())
    os._exit(0)


def wanted(key, given):
    """Functions of torch._C that are opaque need no call: nothing is concluded from them."""
    return given != "python" and key[1] not in NOT_CALLED and not (key[0] in ("torch._C",) and given == "opaque")


def observe(bindings, classes, count):
    """Yields (key, set of words or None) for each binding; one that ends its process counts as not called."""
    left = [key for key in bindings if wanted(key, classes[key])]
    while left:
        reader, writer = os.pipe()
        sys.stdout.flush()
        child = os.fork()
        if child == 0:
            os.close(reader)
            worker(left, bindings, classes, count, writer)
        os.close(writer)
        done = 0
        with os.fdopen(reader) as lines:
            for line in lines:
                key, words = json.loads(line)
                done += 1
                yield tuple(key), None if words is None else set(words)
        os.waitpid(child, 0)
        if done < len(left):
            yield left[done], None
        left = left[done + 1:]
