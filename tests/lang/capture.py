#!/usr/bin/env python3
"""Capture tests: small functions, one a construct of the language or library; each is to be one segment, and right.

Run as `dynrun tests/lang/capture.py [--filter NAMES] [--show]`. Every function of the capture_*.py beside it is called with two tensors,
first where dynrun leaves it alone, then compiled, three times; results and output are compared. Its state is `captured` when
one segment without a break stood for each later call. What is not captured yet is listed in KNOWN with the break that ends it:
a case that turns out worse than its entry fails, one that turns out better asks for the entry to go.
"""

import argparse
import functools
import os
import pathlib
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
sys.path.insert(0, str(HERE))
sys.path.insert(0, str(ROOT / "tests" / "models"))

import harness  # noqa: E402

dynrun = harness.under_dynrun(__file__)

import torch  # noqa: E402

import capture_builtins  # noqa: E402
import capture_classes  # noqa: E402
import capture_control  # noqa: E402
import capture_language  # noqa: E402
import capture_library  # noqa: E402
import capture_numbers  # noqa: E402
import capture_tensors  # noqa: E402
import support  # noqa: E402

# Not captured: the identifier of the break that ends the first segment, and why.
KNOWN = {
    "print_tensor_versions": "write-after-output",  # a tensor is written after something was printed: aten::add_
    "warnings_ignored": "opaque-operation",  # a slice
    "builtin_callable_id": "opaque-call",  # id
    "enum_flag": "opaque-operation",  # an operator on Flags and Flags
    "copy_copy": "opaque-call",  # dict.get
    "copy_deepcopy_tensor": "opaque-call",  # id
    "time_time": "changing-number",  # a comparison
    "typing_generic": "opaque-operation",  # type[torch._C._TensorMeta]
    "class_hash": "opaque-operation",  # a key whose class defines __hash__
    "class_body": "opaque-call",  # Local
    "class_body_closure": "opaque-call",  # Local
    "exception_shape_error": "raise",  # an exception is raised
    "exception_import_error": "opaque-operation",  # an import of a module that is not loaded
    "context_closing_swallows": "opaque-call",  # Swallow
    "context_sdpa_kernel": "opaque-operation",  # pybind11_type.MATH
    "item_branch": "changing-number",  # a comparison
    "clock_branch": "changing-number",  # a comparison
    "outside_deque_read": "unknown-object",  # a collections.deque given to len
    "outside_counter_read": "opaque-operation",  # a key that is not there
    "outside_deque_append": "opaque-call",  # an outside container changed by deque.append
    "outside_counter_update": "opaque-operation",  # a store into a Counter
    "tensor_data": "opaque-operation",  # Tensor.data
    "tensor_requires_grad_set": "opaque-call",  # TensorBase.requires_grad_
    "tensor_hook": "opaque-call",  # TensorBase.requires_grad_
    "tensor_backward": "opaque-call",  # TensorBase.requires_grad_
    "tensor_autograd_grad": "opaque-call",  # TensorBase.requires_grad_
    "tensor_resize": "opaque-call",  # TensorBase.resize_
    "tensor_set": "opaque-call",  # TensorBase.set_
    "tensor_sparse": "data-dependent-operator",  # aten::to_sparse
    "tensor_random": "opaque-call",  # set_eval_frame, of torch.manual_seed
    "tensor_generator": "opaque-call",  # torch._C.Generator
    "func_vmap": "opaque-operation",  # what modules run that are imported on the way; then functorch's layers
    "func_grad": "opaque-call",  # setattr
    "custom_operator": "opaque-call",  # a function of pybind11
    "tensor_subclass": "opaque-call",  # TensorBase.as_subclass
    "tensor_numpy": "opaque-call",  # TensorBase.numpy
    "tensor_storage": "opaque-call",  # TensorBase.data_ptr
    "checkpointed": "opaque-call",  # set_eval_frame
}


def observed(call):
    """(result as text, what was written to standard output and standard error), also of a call that raises."""
    sys.stdout.flush()
    sys.stderr.flush()
    kept = [os.dup(1), os.dup(2)]
    with tempfile.TemporaryFile() as file:
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)
        try:
            result = call()
        except Exception as error:
            result = f"{type(error).__name__}: {error}"
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            for number, saved in enumerate(kept, 1):
                os.dup2(saved, number)
                os.close(saved)
        file.seek(0)
        with dynrun.disable():
            return support.text(result), file.read().decode()


def run_case(function):
    """The case's state, and what went wrong or nothing."""
    tensors = [(support.seq(4, 3), support.seq(4, 3, start=1)), (support.seq(4, 3, start=2), support.seq(4, 3, start=3))]
    with dynrun.disable():
        observed(functools.partial(function, *tensors[0]))  # caches that the first call of all fills
        expected = [observed(functools.partial(function, *tensors[i % 2])) for i in range(4)]
    dynrun.reset_stats()
    dynrun.compile(function)
    got = list(map(observed, [functools.partial(function, *tensors[i % 2]) for i in range(4)]))
    stats = dynrun.stats()
    for i in range(4):
        if got[i] != expected[i]:
            return "wrong", f"call {i}: {got[i]} is not {expected[i]}"
    breaks = stats["graph_breaks"]
    if breaks:
        return breaks[0]["id"], breaks[0]["reason"] + f" at line {breaks[0].get('line')}"
    if stats["segments_compiled"] == 1 and stats["segment_replays"] == 3:
        return "captured", None
    misses = "; ".join(f"{miss['guard']} was {miss['was']} is {miss['now']}" for miss in stats["guard_misses"])
    return "missed", f"{stats['segments_compiled']} segments, {stats['segment_replays']} replays {misses}"


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--filter", default="", help="only cases whose name contains this (several: comma)")
    parser.add_argument("--show", action="store_true", help="print every case's state")
    options = parser.parse_args()
    wanted = [part for part in options.filter.split(",") if part]
    cases = {}
    for module in (capture_builtins, capture_library, capture_language, capture_classes, capture_control, capture_tensors, capture_numbers):
        cases |= module.CASES
    names = [name for name in cases if not wanted or any(part in name for part in wanted)]
    failed = captured = 0
    # No loop of the harness's own is to be recorded.
    for name, (state, detail) in zip(names, list(map(run_case, map(cases.get, names)))):
        captured += state == "captured"
        expected = KNOWN.get(name, "captured")
        if state != expected:
            failed += 1
            print(f"FAIL {name}: {state}, not {expected}: {detail}")
        elif options.show:
            print(f"{name}: {state}" + (f": {detail}" if detail else ""))
    print(f"{captured} of {len(names)} captured")
    print(f"{len(names) - failed} passed, {failed} failed")
    return failed != 0


if __name__ == "__main__":
    sys.exit(main())
