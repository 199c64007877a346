"""Runs the samples of torch's operator database (OpInfo) through replays and compares each with eager.

Used by tools/opinfo and tests/opinfo/run.py, which both run under dynrun. One forked child an operator and dtype: a crash is
one failure, and the child that follows goes on behind it.
"""

import contextlib
import gc
import io
import json
import os
import random
import select
import signal
import sys
import time
import types
import unittest
import warnings

import torch
from torch.utils._python_dispatch import TorchDispatchMode


def import_database():
    """torch's list of OpInfo. Its module wants expecttest, of which it needs no more than a base class."""
    try:
        import expecttest  # noqa: F401
    except ImportError:
        stand_in = types.ModuleType("expecttest")
        stand_in.TestCase = unittest.TestCase
        sys.modules["expecttest"] = stand_in
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from torch.testing._internal.common_methods_invocations import op_db
    # Random operators come wrapped in code that seeds and then restores the generator. Seeding is done here, before each call.
    for name, module in list(sys.modules.items()):
        if name.startswith("torch.testing._internal.") and hasattr(module, "wrapper_set_seed"):
            module.wrapper_set_seed = call_alone
    return op_db


def call_alone(operator, *args, **kwargs):
    return operator(*args, **kwargs)


import dynrun  # noqa: E402

DTYPES = ("float32", "int64", "bool", "complex64", "bfloat16")
MORE_DTYPES = ("float64", "float16", "int32", "int16", "int8", "uint8", "complex128")  # on demand
VARIANTS = ("function", "inplace", "out", "grad")
UNINITIALISED = {"empty", "empty_like", "empty_strided", "empty_permuted", "new_empty", "new_empty_strided", "resize_", "resize_as_"}
CHILD_LIMIT = 600  # seconds without a line from a child


# ---- values ----------------------------------------------------------------------------------------------------------------

class Copier:
    """Copies values so that the copies lie in memory as the originals do: strides, offsets, shared storages.

    `shift`: so many bytes, a multiple of every element's, behind where memory was allocated."""

    def __init__(self, shift=0):
        self.shift = shift
        self.storages = {}
        self.tensors = {}

    def storage(self, original):
        if not self.shift:
            return original.clone()
        bytes_of = torch.empty(0, dtype=torch.uint8).set_(original)
        return torch.cat([torch.zeros(self.shift, dtype=torch.uint8), bytes_of]).untyped_storage()

    def tensor(self, value):
        if id(value) in self.tensors:
            return self.tensors[id(value)][1]
        if value.layout != torch.strided or type(value) is not torch.Tensor or value.is_nested or value.is_quantized:
            copy = value.clone()
        else:
            storage = value.untyped_storage()
            if storage.data_ptr() not in self.storages or storage.nbytes() == 0:
                self.storages[storage.data_ptr()] = self.storage(storage)
            copy = torch.empty(0, dtype=value.dtype)
            copy.set_(self.storages[storage.data_ptr()], value.storage_offset() + self.shift // value.itemsize, value.size(), value.stride())
            if value.is_conj():
                copy = torch._C._conj(copy) if hasattr(torch._C, "_conj") else torch.conj(copy)
            if value.is_neg():
                copy = torch._neg_view(copy)
        copy.requires_grad_(value.requires_grad)
        self.tensors[id(value)] = (value, copy)
        return copy

    def __call__(self, value):
        if isinstance(value, torch.Tensor):
            return self.tensor(value)
        if type(value) in (list, tuple):
            return type(value)(self(item) for item in value)
        if type(value) is dict:
            return {key: self(item) for key, item in value.items()}
        return value


def tensors_in(value):
    if isinstance(value, torch.Tensor):
        return [value]
    if isinstance(value, (list, tuple)):
        return [tensor for item in value for tensor in tensors_in(item)]
    if isinstance(value, dict):
        return [tensor for item in value.values() for tensor in tensors_in(item)]
    return []


def metadata(tensor):
    plain = tensor.layout == torch.strided and not tensor.is_nested
    return (type(tensor).__name__, str(tensor.dtype), str(tensor.layout), tuple(tensor.shape) if not tensor.is_nested else None,
            (tensor.stride(), tensor.is_conj(), tensor.is_neg()) if plain else None, tensor.requires_grad)


def same_call(first, second):
    """Whether two samples differ in the numbers of their tensors only."""
    if isinstance(first, torch.Tensor) or isinstance(second, torch.Tensor):
        if not (isinstance(first, torch.Tensor) and isinstance(second, torch.Tensor)):
            return False
        return metadata(first) == metadata(second)
    if type(first) is not type(second):
        return False
    if isinstance(first, (list, tuple)):
        return len(first) == len(second) and all(map(same_call, first, second))
    if isinstance(first, dict):
        return list(first) == list(second) and all(same_call(first[key], second[key]) for key in first)
    try:
        return bool(first == second) or (first != first and second != second)
    except Exception:
        return False


def storage_of(tensor):
    try:
        return tensor.untyped_storage()._cdata if tensor.layout == torch.strided else None
    except Exception:
        return None


class Outcome:
    """What a call gave and did, with everything that a program could see of it."""

    def __init__(self, call, inputs, seed):
        """Calls `call(*inputs)` after seeding the random stream."""
        given = tensors_in(inputs)
        versions = [tensor._version for tensor in given]
        torch.manual_seed(seed)
        self.error = None
        self.result = None
        try:
            self.result = call(*inputs)
        except Exception as error:
            self.error = error
        self.random_state = torch.get_rng_state()
        self.given = given
        self.versions = [tensor._version - before for tensor, before in zip(given, versions)]
        self.results = tensors_in(self.result)

    def aliasing(self):
        """For each result: which tensor before it it is, and with which it shares memory."""
        before, answer = list(self.given), []
        for tensor in self.results:
            same = next((i for i, other in enumerate(before) if other is tensor), -1)
            storage = storage_of(tensor)
            shared = next((i for i, other in enumerate(before) if storage is not None and storage_of(other) == storage), -1)
            offset = tensor.storage_offset() if storage is not None and shared >= 0 else 0
            answer.append((same, shared, offset))
            before.append(tensor)
        return answer


def difference_of_tensors(got, right, values=True):
    if metadata(got) != metadata(right):
        return "metadata", f"{metadata(got)} instead of {metadata(right)}"
    if not values or got.is_meta:
        return None
    try:
        if got.is_nested:
            pairs = list(zip(got.unbind(), right.unbind()))
        elif got.is_quantized:
            pairs = [(got.int_repr(), right.int_repr())]
        else:
            pairs = [(got, right)]
        for one, other in pairs:
            exact = not (one.is_floating_point() or one.is_complex())
            tolerance = {"rtol": 0, "atol": 0} if exact else {}
            torch.testing.assert_close(one, other, equal_nan=True, **tolerance)
    except AssertionError as error:
        return "value", " ".join(str(error).split())[:300]
    return None


def difference_of_results(got, right, values):
    if isinstance(right, torch.Tensor) and isinstance(got, torch.Tensor):
        return difference_of_tensors(got, right, values)
    if type(got) is not type(right):
        return "structure", f"{type(got).__name__} instead of {type(right).__name__}"
    if isinstance(right, (list, tuple)):
        if len(got) != len(right):
            return "structure", f"{len(got)} results instead of {len(right)}"
        return next((found for found in map(difference_of_results, got, right, [values] * len(right)) if found), None)
    if isinstance(right, dict):
        if list(got) != list(right):
            return "structure", f"keys {list(got)} instead of {list(right)}"
        return next((found for key in right if (found := difference_of_results(got[key], right[key], values))), None)
    if isinstance(right, (bool, int, str, type(None), torch.dtype, torch.Size)):
        return None if got == right else ("value", f"{got!r} instead of {right!r}")
    if isinstance(right, (float, complex)):
        try:
            torch.testing.assert_close(got, right, equal_nan=True)
        except AssertionError as error:
            return "value", " ".join(str(error).split())[:300]
    return None


def difference(got, right, values=True):
    """(kind, text) of the first way in which an outcome is not eager's, or None."""
    if got.error is not None or right.error is not None:
        if type(got.error) is not type(right.error) or str(got.error) != str(right.error):
            return "exception", f"{got.error!r:.200} instead of {right.error!r:.200}"
        return None
    if found := difference_of_results(got.result, right.result, values):
        return found
    if got.aliasing() != right.aliasing():
        return "aliasing", f"{got.aliasing()} instead of {right.aliasing()}"
    for index, (one, other) in enumerate(zip(got.given, right.given)):
        if found := difference_of_tensors(one, other, values):
            return found[0], f"argument {index} afterwards: {found[1]}"
    if got.versions != right.versions:
        return "version", f"{got.versions} instead of {right.versions}"
    if not torch.equal(got.random_state, right.random_state):
        return "random stream", "the generator's state afterwards differs"
    return difference_of_gradients(got, right, values)


def gradients(outcome):
    """What backward through all results gives each argument, after a fixed seed; None where there is nothing to go through."""
    results = [tensor for tensor in outcome.results if tensor.requires_grad]
    wanted = [tensor for tensor in outcome.given if tensor.requires_grad and tensor.is_leaf]
    if not results or not wanted:
        return None
    torch.manual_seed(7)
    starts = [torch.ones_like(tensor) for tensor in results]
    return torch.autograd.grad(results, wanted, starts, allow_unused=True)


def difference_of_gradients(got, right, values):
    outcomes = []
    for outcome in (got, right):
        try:
            outcomes.append((gradients(outcome), [type(tensor.grad_fn).__name__ for tensor in outcome.results]))
        except Exception as error:
            outcomes.append((repr(error)[:200], []))
    (one, names), (other, right_names) = outcomes
    if names != right_names:
        return "autograd graph", f"{names} instead of {right_names}"
    if one is None or other is None or isinstance(one, str) or isinstance(other, str):
        return None if one is other or (isinstance(one, str) and one == other) else ("gradient", f"{one} instead of {other}"[:300])
    for index, (mine, eager) in enumerate(zip(one, other)):
        if (mine is None) != (eager is None):
            return "gradient", f"argument {index}: {mine} instead of {eager}"[:300]
        if mine is not None and (found := difference_of_tensors(mine, eager, values)):
            return "gradient", f"argument {index}: {found[1]}"
    return None


# ---- one sample ------------------------------------------------------------------------------------------------------------

@contextlib.contextmanager
def switched_on(off):
    """dynrun on inside a block that switched it off."""
    off.__exit__(None, None, None)
    try:
        yield
    finally:
        off.__enter__()


def template(input, args, kwargs):
    return operator(input, *args, **kwargs)  # noqa: F821


def function_for(operator, number):
    """A function with code of its own, so that no sample meets another one's segments."""
    code = template.__code__.replace(co_name=f"sample_{number}", co_firstlineno=number + 1)
    return types.FunctionType(code, {"operator": operator, "__builtins__": __builtins__}, f"sample_{number}")


class LooksAtData(TorchDispatchMode):
    """Notes whether a Python number was made from tensor data."""

    def __init__(self):
        super().__init__()
        self.seen = False

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.seen = self.seen or torch.Tag.data_dependent_output in func.tags
        return func(*args, **(kwargs or {}))


def has_to_break(operator, sample, outcome):
    """Whether a call cannot be one graph: numbers made from data, layouts that graphs do not hold."""
    if any(operator is known and tensors_in(sample[1:]) for known in (torch.tensor_split, torch.Tensor.tensor_split)):
        return True  # splits at places that it reads behind the dispatcher
    if any(tensor.layout != torch.strided or tensor.is_nested or tensor.is_quantized for tensor in outcome.given + outcome.results):
        return True
    with LooksAtData() as mode:
        Outcome(operator_call(operator), Copier()(sample), 100)
    return mode.seen


def break_texts(stats):
    return [f"{found['id']}: {found['reason']}" for found in stats["graph_breaks"]]


def leave_behind(generator):
    """Memory that is handed out next holds zeros and ones. More blocks of a size than a thread's cache keeps, out of which aligned memory is not taken."""
    blocks = [torch.randint(0, 2, (size,), dtype=torch.int32, generator=generator) for size in range(1, 97) for _ in range(9)]
    random.Random(generator.initial_seed()).shuffle(blocks)
    while blocks:
        blocks.pop()


def eager_repeats(operator, sample, seed, tries=300):
    """Whether eager gives the same whatever memory held before. (LAPACK's gelsy gets pivots that torch has not set.)"""
    first = Outcome(operator_call(operator), Copier()(sample), seed)
    torch.use_deterministic_algorithms(True, warn_only=True)  # fills what is not set
    try:
        filled = Outcome(operator_call(operator), Copier()(sample), seed)
    finally:
        torch.use_deterministic_algorithms(False)
    if difference(filled, first):
        return False
    for number in range(tries):
        leave_behind(torch.Generator().manual_seed(number))
        if difference(Outcome(operator_call(operator), Copier()(sample), seed), first):
            return False
    # Sums in other orders, by where vectors of memory begin: they decide which columns that repeat are the first ones.
    for shift in range(16, 128, 16):
        found = difference(Outcome(operator_call(operator), Copier(shift)(sample), seed), first)
        if found and found[0] == "value":
            return False
    return True


def wrong(operator, sample, seed, call, found):
    """(class, text) of a call that differs from eager's."""
    if found[0] == "value" and not eager_repeats(operator, sample, seed):
        return "eager varies", "eager's own results differ from call to call"
    return "wrong " + found[0], f"call {call}: {found[1]}"


def run_sample(off, operator, first, second, number, initialised=True):
    """(class, text): replayed, unrecorded (no tensor operator at all), break, expected break, or how it differs from eager."""
    calls = [first, first, second, second]
    rights = [Outcome(operator_call(operator), Copier()(sample), 100 + i // 2) for i, sample in enumerate(calls)]
    if rights[0].error is not None and not initialised:
        return "skipped", ""
    function = dynrun.compile(function_for(operator, number))
    inputs = [Copier()(sample) for sample in calls]
    dynrun.reset_stats()
    outcomes = []
    for i, arguments in enumerate(inputs):
        seed = 100 + i // 2

        def call(*arguments):
            with switched_on(off):
                return function(*arguments)

        outcomes.append(Outcome(call, arguments, seed))
    stats = dynrun.stats()
    for i, (got, right) in enumerate(zip(outcomes, rights)):
        if found := difference(got, right, initialised):
            return wrong(operator, calls[i], 100 + i // 2, i, found)
    if rights[0].error is not None:
        return "raises alike", f"{type(rights[0].error).__name__}"
    if stats["operators_total"] == 0:
        return "no operator", ""
    reasons = break_texts(stats)
    if stats["operators_captured"] == stats["operators_total"] and stats["segment_replays"] >= 2 and not reasons:
        return "replayed", ""
    if reasons:
        return ("expected break" if has_to_break(operator, first, rights[0]) else "break"), "; ".join(sorted(set(reasons)))
    misses = [f"{miss['guard']} was {miss['was']} now {miss['now']}" for miss in stats["guard_misses"]]
    return "not replayed", (f"{stats['operators_captured']} of {stats['operators_total']} operators, {stats['segment_replays']} replays"
                            + (f", guard {misses[0]}" if misses else ""))


MOST_SEGMENTS = 3
TO_ONE = "to one"
UNCHECKED_AT_ONE = {"cov",  # eager writes its argument, of one observation with weights, by mistake
                    "linalg.ldl_solve"}  # and takes pivots of more rows than there are
UNCHECKED_INDICES = {"nn.functional.embedding_bag"}  # places in memory by their own numbers: others of a larger size are not theirs


def other_size(size, by):
    if size < 2:
        return size
    return 1 if by == TO_ONE else size + by


def resized(value, by):
    """The value with tensors of other sizes: each dimension of two or more grows by `by`, all of one size alike, or has one element
    for `TO_ONE`. Numbers repeat."""
    if isinstance(value, torch.Tensor):
        if type(value) is not torch.Tensor or value.layout != torch.strided or value.is_nested or value.is_quantized:
            raise ValueError("not to be resized")
        result = value.detach()
        for dimension, size in enumerate(value.shape):
            if size >= 2:
                result = result.index_select(dimension, torch.arange(other_size(size, by)) % size)
        if not value.is_contiguous() and value.dim() > 1:
            # As many dimensions lie in the same order in memory.
            order = sorted(range(value.dim()), key=value.stride, reverse=True)
            back = [order.index(dimension) for dimension in range(value.dim())]
            result = result.permute(order).contiguous().permute(back)
        return result.clone(memory_format=torch.preserve_format).requires_grad_(value.requires_grad)
    if isinstance(value, torch.Size):
        return torch.Size(other_size(size, by) for size in value)
    if type(value) in (list, tuple):
        return type(value)(resized(item, by) for item in value)
    if type(value) is dict:
        return {key: resized(item, by) for key, item in value.items()}
    return value


def resized_call(operator, sample, by):
    """The sample at another size; out= is made for what it gives there."""
    input, args, kwargs = sample
    given = resized((input, args, {name: value for name, value in kwargs.items() if name != "out"}), by)
    if "out" not in kwargs:
        return given
    out = with_out(operator, given)
    return given if out is None else (*given[:2], {**given[2], "out": out})


def form(value):
    """How a result is made up, tensors apart: what Python code can see without asking for a size."""
    if isinstance(value, (list, tuple)):
        return type(value), tuple(map(form, value))
    return type(value)


def run_sizes(off, operator, first, number, initialised=True, ones=False):
    """(class, text) of one function that is called at several sizes, each of them twice: replayed, or how it differs from eager.

    Results of another form, such as as many tensors as a size says, need a segment each. With `ones` dimensions have one element
    in some calls: behind a recording for all sizes, or in it."""
    try:
        samples = [first] + [resized_call(operator, first, by) for by in (1, TO_ONE if ones else 3, 2)]
    except Exception:
        return "skipped", ""
    order = (0, 0, 2, 2, 1, 2, 3, 1, 3) if ones and number % 2 else (0, 0, 1, 1, 2, 3, 2, 0, 3)
    calls = [samples[i] for i in order]
    rights = [Outcome(operator_call(operator), Copier()(sample), 100 + i) for i, sample in enumerate(calls)]
    if rights[0].error is not None:
        return "skipped", ""
    function = dynrun.compile(function_for(operator, number))
    inputs = [Copier()(sample) for sample in calls]
    dynrun.reset_stats()
    outcomes = []

    def call(*arguments):
        with switched_on(off):
            return function(*arguments)

    for i, arguments in enumerate(inputs):
        outcomes.append(Outcome(call, arguments, 100 + i))
    stats = dynrun.stats()
    for i, (got, right) in enumerate(zip(outcomes, rights)):
        if found := difference(got, right, initialised):
            return wrong(operator, calls[i], 100 + i, i, found)
    if stats["operators_total"] == 0:
        return "no operator", ""
    if raising := [right.error for right in rights if right.error is not None]:
        return "raises alike", type(raising[0]).__name__
    if reasons := break_texts(stats):
        return ("expected break" if has_to_break(operator, first, rights[0]) else "break"), "; ".join(sorted(set(reasons)))
    forms = {form(right.result) for right in rights}
    if stats["segments_compiled"] <= MOST_SEGMENTS - 1 + len(forms):
        return "replayed", ""
    misses = [f"{miss['guard']} was {miss['was']} now {miss['now']}" for miss in stats["guard_misses"]]
    return "not replayed", f"{stats['segments_compiled']} segments" + (f", guard {misses[-1]}" if misses else "")


def operator_call(operator):
    return lambda input, args, kwargs: operator(input, *args, **kwargs)


# ---- one operator ----------------------------------------------------------------------------------------------------------

def samples_twice(info, dtype):
    """Pairs of samples that differ in their numbers where the generator gives such."""
    torch.manual_seed(1)
    others = iter(info.sample_inputs("cpu", dtype))
    torch.manual_seed(2)
    for sample in info.sample_inputs("cpu", dtype):
        try:
            other = next(others, None)
        except Exception:
            other = None
        first = (sample.input, sample.args, sample.kwargs)
        second = (other.input, other.args, other.kwargs) if other is not None else first
        yield first, second if same_call(first, second) else first, sample


def with_out(operator, first):
    """The sample's keyword arguments with out= tensors of the right shape, filled with something else, or None."""
    right = Outcome(operator_call(operator), Copier()(first), 100)
    results = right.results
    if right.error is not None or not results or any(tensor.layout != torch.strided for tensor in results):
        return None
    if len(results) > 1 and not isinstance(right.result, tuple):
        return None
    outs = [torch.ones_like(tensor.detach()) for tensor in results]
    if isinstance(right.result, torch.Tensor):
        return outs[0]
    return tuple(outs) if isinstance(right.result, tuple) else None


def with_gradients(sample):
    """The sample on tensors that require gradients where their dtype can."""
    copy = Copier()(sample)
    for tensor in tensors_in(copy):
        if (tensor.is_floating_point() or tensor.is_complex()) and tensor.is_leaf:
            tensor.requires_grad_(True)
    return copy


def variant_calls(off, info, dtype, first, second, sample, variants):
    """(variant, operator, first, second) for everything that one sample is run as."""
    if "function" in variants:
        yield "function", info.op, first, second
    if "inplace" in variants and info.get_inplace() is not None and not sample.broadcasts_input and isinstance(first[0], torch.Tensor):
        yield "inplace", info.get_inplace(), first, second
    if "grad" in variants and info.supports_autograd and dtype in info.supported_backward_dtypes("cpu"):
        yield "grad", info.op, with_gradients(first), with_gradients(second)
    if "out" in variants and info.supports_out and "out" not in first[2]:
        out = with_out(info.op, first)
        if out is not None:
            yield "out", info.op, (*first[:2], {**first[2], "out": out}), (*second[:2], {**second[2], "out": out})


def describe(sample):
    def one(value):
        if isinstance(value, torch.Tensor):
            text = f"{str(value.dtype)[6:]}{list(value.shape) if not value.is_nested else 'nested'}"
            if value.layout != torch.strided:
                return f"{text} {value.layout}"
            return text if value.is_contiguous() else f"{text} strides {list(value.stride())}"
        if isinstance(value, (list, tuple)):
            return "[" + ", ".join(map(one, value)) + "]"
        if isinstance(value, dict):
            return "{" + ", ".join(f"{key}: {one(item)}" for key, item in value.items()) + "}"
        return repr(value)[:60]

    return " ".join(map(one, sample))[:300]


def run_operator(stream, info, dtype, start, options):
    """The child: runs the samples from `start` on, a JSON line before and after each."""
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    initialised = info.name not in UNINITIALISED
    off = dynrun.disable()
    off.__enter__()
    number = 0
    for index, (first, second, sample) in enumerate(samples_twice(info, dtype)):
        if options.samples and index >= options.samples:
            break
        for variant, operator, one, other in variant_calls(off, info, dtype, first, second, sample, options.variants):
            number += 1
            if number <= start or (options.only and number != options.only):
                continue
            print(json.dumps({"start": number, "variant": variant}), file=stream, flush=True)
            if variant != "function" and Outcome(operator_call(operator), Copier()(one), 100).error is not None:
                continue
            if options.dynamic and (info.name in UNCHECKED_INDICES or (options.ones and info.name in UNCHECKED_AT_ONE)):
                continue
            if options.dynamic:
                kind, text = run_sizes(off, operator, one, number, initialised, options.ones)
            else:
                kind, text = run_sample(off, operator, one, other, number, initialised)
            line = {"number": number, "variant": variant, "class": kind, "text": text}
            if kind != "replayed":
                line["sample"] = describe(one)
            print(json.dumps(line), file=stream, flush=True)
            with_reset(number)
    print(json.dumps({"done": True}), file=stream, flush=True)


def with_reset(number):
    dynrun.reset()
    if number % 50 == 0:
        gc.collect()


# ---- children --------------------------------------------------------------------------------------------------------------

class Child:
    def __init__(self, info, dtype_name, start, options):
        self.info, self.dtype_name, self.start, self.options = info, dtype_name, start, options
        self.running, self.variant, self.done = start, "function", False
        read_end, write_end = os.pipe()
        sys.stdout.flush()
        self.pid = os.fork()
        if self.pid == 0:
            os.close(read_end)
            self.be_child(write_end)
        os.close(write_end)
        self.read_end, self.text, self.heard = read_end, b"", time.monotonic()

    def be_child(self, write_end):
        null = os.open(os.devnull, os.O_RDWR)
        os.dup2(null, 0)
        if not self.options.verbose:
            os.dup2(null, 1)
            os.dup2(null, 2)
        status = 1
        try:
            with os.fdopen(write_end, "w") as stream:
                run_operator(stream, self.info, getattr(torch, self.dtype_name), self.start, self.options)
            status = 0
        except BaseException:
            text = io.StringIO()
            import traceback
            traceback.print_exc(file=text)
            with contextlib.suppress(Exception):
                os.write(2, text.getvalue().encode())
        finally:
            os._exit(status)

    def read(self):
        """The lines that have come; False at the end."""
        data = os.read(self.read_end, 65536)
        self.heard = time.monotonic()
        self.text += data
        *lines, self.text = self.text.split(b"\n")
        found = []
        for line in map(json.loads, lines):
            if "start" in line:
                self.running, self.variant = line["start"], line["variant"]
            elif "done" in line:
                self.done = True
            else:
                found.append(line)
        return found, bool(data)

    def close(self):
        """Why a child that did not end well ended."""
        os.close(self.read_end)
        _, status = os.waitpid(self.pid, 0)
        code = os.waitstatus_to_exitcode(status)
        return f"signal {signal.Signals(-code).name}" if code < 0 else f"status {code}"


def name_of(info):
    return f"{info.name}.{info.variant_test_name}" if info.variant_test_name else info.name


def run_all(infos, options, report):
    """Runs every (info, dtype name) pair of `infos`; calls report(info, dtype name, line) for each sample."""
    waiting = [(info, dtype, 0) for info, dtype in infos]
    children = {}
    while waiting or children:
        while waiting and len(children) < options.jobs:
            child = Child(*waiting.pop(0), options)
            children[child.read_end] = child
        ready, _, _ = select.select(list(children), [], [], 1.0)
        for read_end in ready:
            child = children[read_end]
            lines, more = child.read()
            for line in lines:
                report(child.info, child.dtype_name, line)
            if more:
                continue
            del children[read_end]
            how = child.close()
            if not child.done:
                report(child.info, child.dtype_name, {"number": child.running, "variant": child.variant, "class": "crash", "text": how,
                                                      "sample": ""})
                if not options.only and child.running > child.start:
                    waiting.insert(0, (child.info, child.dtype_name, child.running))
        for child in children.values():
            if time.monotonic() - child.heard > CHILD_LIMIT:
                os.kill(child.pid, signal.SIGKILL)
                child.heard = time.monotonic()


def matches(name, text):
    """`=name` is that operator alone, any other text a part of its name."""
    return name == text[1:] if text.startswith("=") else text in name


def select_operators(database, dtypes, text, fraction, day):
    """(info, dtype name) pairs: all, those whose name holds `text`, or every `fraction`-th starting at the day's."""
    pairs = [(info, dtype) for dtype in dtypes for info in database if getattr(torch, dtype) in info.supported_dtypes("cpu")]
    if text:
        pairs = [(info, dtype) for info, dtype in pairs if any(matches(name_of(info), part) for part in text.split(","))]
    if fraction > 1:
        pairs = [pair for at, pair in enumerate(pairs) if at % fraction == day % fraction]
    return pairs


# ---- tally -----------------------------------------------------------------------------------------------------------------

GOOD = ("replayed", "no operator", "raises alike", "expected break")
LISTED = ("break", "not replayed", "eager varies")


class Tally:
    def __init__(self):
        self.counts = {}   # (dtype, class) -> count
        self.causes = {}   # (class, cause) -> {operator: [count, first line]}
        self.lines = []

    def add(self, info, dtype, line):
        kind = line["class"]
        if kind == "skipped":
            return
        self.counts[dtype, kind] = self.counts.get((dtype, kind), 0) + 1
        if kind == "replayed":
            return
        self.lines.append({"operator": name_of(info), "dtype": dtype, **line})
        cause = line["text"] if kind in LISTED + ("expected break",) else ""
        found = self.causes.setdefault((kind, cause), {}).setdefault(name_of(info), [0, dtype, line])
        found[0] += 1

    def total(self, kinds, dtype=None):
        return sum(count for (of, kind), count in self.counts.items() if kind in kinds and dtype in (None, of))

    def kinds(self):
        return sorted({kind for _, kind in self.counts})

    def bad(self, dtype=None):
        return self.total([kind for kind in self.kinds() if kind not in GOOD + LISTED], dtype)

    def listed(self, dtype=None):
        return self.total(LISTED, dtype)

    def all(self, dtype=None):
        return self.total(self.kinds(), dtype)

    def print_causes(self, most):
        groups = sorted(self.causes.items(), key=lambda group: -sum(found[0] for found in group[1].values()))
        for (kind, cause), operators in groups:
            if kind in ("no operator", "raises alike", "expected break") and not most:
                continue
            count = sum(found[0] for found in operators.values())
            print(f"{kind} x{count}{': ' + cause[:200] if cause else ''}")
            for name, (number, dtype, line) in sorted(operators.items(), key=lambda item: -item[1][0])[:most or 12]:
                text = "" if kind in LISTED or kind == "expected break" else f"  {line['text']}"
                print(f"    {name} x{number} ({dtype} #{line['number']} {line['variant']}) {line.get('sample', '')[:140]}{text[:300]}")
            if len(operators) > (most or 12):
                print(f"    and {len(operators) - (most or 12)} more: {' '.join(sorted(operators)[:60])}")

    def print_table(self, dtypes):
        print(f"{'dtype':<10} {'samples':>8} {'replayed':>9} {'no op':>6} {'raise':>6} {'must break':>11} {'listed':>7} {'wrong':>6} {'equal eager':>12}")
        for dtype in [*dtypes, None]:
            everything = self.all(dtype)
            if not everything:
                continue
            good = self.total(GOOD, dtype)
            print(f"{dtype or 'all':<10} {everything:>8} {self.total(['replayed'], dtype):>9} {self.total(['no operator'], dtype):>6} "
                  f"{self.total(['raises alike'], dtype):>6} {self.total(['expected break'], dtype):>11} {self.listed(dtype):>7} "
                  f"{self.bad(dtype):>6} {good:>7} {100 * good / everything:.2f} %")
