#!/usr/bin/env python3
"""Capture tests: small functions, one a construct of the language or library; each is to be one segment, and right.

Run as `dynrun tests/lang/capture.py [--filter NAMES] [--show]`. Every function of the capture_*.py beside it is called with two tensors,
first where dynrun leaves it alone, then compiled, three times; results and output are compared. Its state is `captured` when
one segment without a break stood for each later call. What is not captured yet is listed in KNOWN with the break that ends it:
a case that turns out worse than its entry fails, one that turns out better asks for the entry to go.
"""

import argparse
import os
import pathlib
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
sys.path.insert(0, str(HERE))
sys.path.insert(0, str(ROOT / "tests" / "models"))

import harness  # noqa: E402

dynrun = harness.load_dynrun()
EXECUTABLE = pathlib.Path(os.environ.get("DYNRUN", ROOT / "build" / "release" / "dynrun"))
if not harness.is_real(dynrun) and EXECUTABLE.exists() and "DYNRUN_TESTS_PLAIN" not in os.environ:
    os.execv(EXECUTABLE, [str(EXECUTABLE), os.path.abspath(__file__), *sys.argv[1:]])

import torch  # noqa: E402

import capture_builtins  # noqa: E402
import capture_language  # noqa: E402
import capture_library  # noqa: E402
import support  # noqa: E402

# Not captured: the identifier of the break that ends the first segment, and why.
KNOWN = {
    "print_text": "opaque-call",  # print
    "print_shape": "opaque-call",  # print
    "print_fstring": "opaque-call",  # print
    "print_tensor": "opaque-call",  # print
    "print_tensor_versions": "opaque-call",  # print
    "print_fstring_tensor": "opaque-operation",  # formatting a Tensor
    "print_item": "opaque-call",  # TensorBase.item
    "print_flush": "opaque-call",  # print
    "print_empty": "opaque-call",  # print
    "print_list": "opaque-call",  # print
    "print_in_loop": "opaque-call",  # print
    "print_percent": "opaque-call",  # print
    "logging_info": "opaque-call",  # _getframe
    "warnings_warn_once": "opaque-call",  # warn
    "warnings_ignored": "opaque-operation",  # a slice
    "builtin_isinstance": "opaque-call",  # Parameter.__instancecheck__
    "builtin_isinstance_parameter": "opaque-call",  # Parameter.__instancecheck__
    "builtin_isinstance_union": "unknown-object",  # types.UnionType
    "builtin_isinstance_protocol": "missed",  # 4 segments, 0 replays super().__instancecheck__ was another function is nothing
    "builtin_min_max_key": "opaque-call",  # min
    "builtin_slices": "opaque-operation",  # a slice
    "builtin_callable_id": "opaque-call",  # id
    "builtin_hash": "opaque-call",  # hash
    "builtin_iter_sentinel": "unknown-object",  # callable_iterator
    "builtin_vars_dir": "opaque-call",  # vars
    "builtin_setattr_delattr": "opaque-call",  # types.SimpleNamespace
    "builtin_globals": "opaque-call",  # globals
    "functools_partialmethod": "opaque-operation",  # Partial.triple
    "functools_lru_cache": "opaque-call",  # an object of class functools._lru_cache_wrapper
    "functools_wraps_inside": "opaque-call",  # setattr
    "functools_singledispatch": "opaque-operation",  # Tensor.__class__
    "functools_cached_property": "opaque-operation",  # Lazy.twice
    "functools_total_ordering": "opaque-operation",  # comparing Ordered and Ordered
    "functools_cmp_to_key": "opaque-call",  # cmp_to_key
    "itertools_chain": "opaque-operation",  # type.from_iterable
    "itertools_product": "opaque-operation",  # iterating over a itertools.product
    "itertools_permutations": "opaque-call",  # itertools.permutations
    "itertools_islice": "opaque-call",  # itertools.count
    "itertools_groupby": "opaque-call",  # itertools.groupby
    "itertools_misc": "opaque-call",  # itertools.takewhile
    "itertools_pairwise": "opaque-call",  # itertools.pairwise
    "itertools_cycle_tee": "opaque-call",  # itertools.cycle
    "operator_functions": "opaque-call",  # an object of class operator.itemgetter
    "operator_in_place": "opaque-call",  # iadd
    "math_functions": "opaque-call",  # fsum
    "collections_deque": "opaque-call",  # collections.deque
    "collections_defaultdict": "opaque-call",  # collections.defaultdict
    "collections_defaultdict_lambda": "opaque-call",  # collections.defaultdict
    "collections_namedtuple": "opaque-call",  # tuple.__new__
    "collections_namedtuple_result": "opaque-call",  # tuple.__new__
    "collections_namedtuple_class": "opaque-call",  # tuple.__new__
    "collections_counter": "opaque-call",  # _count_elements
    "dict_methods": "opaque-operation",  # DELETE_SUBSCR
    "dict_views": "opaque-operation",  # an operator on dict_keys and dict_keys
    "dict_order": "opaque-operation",  # type.fromkeys
    "set_operations": "opaque-operation",  # unpacking a frozenset
    "set_global_contains": "unknown-object",  # a set given to len
    "list_methods": "opaque-operation",  # DELETE_SUBSCR
    "dataclass_frozen": "opaque-call",  # hash
    "enum_members": "opaque-operation",  # Mode.value
    "enum_int": "opaque-operation",  # Level.value
    "enum_flag": "opaque-operation",  # an operator on Flags and Flags
    "enum_str": "opaque-operation",  # Kind.value
    "enum_key": "opaque-operation",  # Mode._name_
    "copy_copy": "opaque-call",  # dict.get
    "copy_deepcopy": "opaque-call",  # id
    "copy_deepcopy_tensor": "opaque-call",  # id
    "random_random": "opaque-call",  # Random.seed
    "time_time": "opaque-call",  # time
    "typing_generic": "opaque-operation",  # type[torch._C._TensorMeta]
    "class_iteration": "generator",  # Vector.__iter__
    "class_operators": "opaque-operation",  # an operator on Vector and Vector
    "class_compare": "opaque-operation",  # comparing Vector and Vector
    "class_hash": "opaque-operation",  # a key whose class defines __hash__
    "class_text": "opaque-operation",  # formatting a Vector
    "class_numbers": "opaque-operation",  # list[Vector]
    "class_super_property": "opaque-operation",  # super()
    "class_property": "opaque-operation",  # Base.twice = ...
    "class_descriptor": "opaque-operation",  # Weather.heat = ...
    "class_metaclass": "opaque-call",  # type.__call__
    "class_metaclass_property": "opaque-operation",  # Registry.size
    "class_dict_subclass": "opaque-call",  # Bag
    "class_list_subclass": "opaque-call",  # Items
    "class_tuple_subclass": "opaque-call",  # Named
    "class_body": "opaque-operation",  # LOAD_BUILD_CLASS
    "class_body_closure": "opaque-operation",  # LOAD_BUILD_CLASS
    "exception_custom": "opaque-call",  # Stop
    "exception_key_error_outside": "raise",  # dict[str]
    "exception_assert_caught": "opaque-operation",  # AssertionError.args
    "exception_shape_error": "raise",  # an exception is raised
    "exception_import_error": "opaque-operation",  # an import of a module that is not loaded
    "context_inference_mode": "opaque-call",  # torch._C._InferenceMode
    "context_inference_decorator": "opaque-call",  # torch._C._InferenceMode
    "context_autocast": "opaque-call",  # _is_autocast_available
    "context_autocast_off": "opaque-call",  # _is_autocast_available
    "context_record_function": "opaque-operation",  # dict[function]
    "context_autograd_record": "opaque-operation",  # dict[function]
    "context_contextmanager": "opaque-operation",  # DELETE_ATTR
    "context_contextmanager_decorator": "opaque-operation",  # DELETE_ATTR
    "context_restores": "opaque-operation",  # DELETE_ATTR
    "context_exit_stack": "opaque-call",  # collections.deque
    "context_suppress": "opaque-operation",  # WITH_EXCEPT_START
    "context_closing_swallows": "opaque-operation",  # LOAD_BUILD_CLASS
    "context_several": "opaque-operation",  # DELETE_ATTR
    "context_sdpa_kernel": "opaque-operation",  # pybind11_type.MATH
    "generator_for": "unknown-object",  # tuple
    "generator_yield_from": "unknown-object",  # the arguments of a call
    "generator_send": "opaque-call",  # generator.send
    "delete_names": "opaque-operation",  # DELETE_SUBSCR
    "match_values": "opaque-operation",  # MATCH_SEQUENCE
    "match_patterns": "opaque-operation",  # MATCH_SEQUENCE
    "module_parameters": "opaque-operation",  # GET_YIELD_FROM_ITER
    "module_children": "opaque-operation",  # in a set
    "module_buffers_state": "opaque-operation",  # GET_YIELD_FROM_ITER
    "module_hooks": "opaque-operation",  # an intrinsic
    "module_made_inside": "opaque-call",  # Parameter.__instancecheck__
    "functional_mix": "opaque-operation",  # type[type]
    "tensor_methods": "opaque-operation",  # a call with * of an iterable
    "checkpointed": "opaque-call",  # set_eval_frame
    "cached_tensor": "opaque-call",  # an object of class functools._lru_cache_wrapper
}


def observed(function, arguments):
    """(result as text, what was written to standard output and standard error), also of a call that raises."""
    sys.stdout.flush()
    sys.stderr.flush()
    kept = [os.dup(1), os.dup(2)]
    with tempfile.TemporaryFile() as file:
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)
        try:
            result = function(*arguments)
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
        observed(function, tensors[0])  # caches that the first call of all fills
        expected = [observed(function, tensors[i % 2]) for i in range(4)]
    dynrun.reset_stats()
    dynrun.compile(function)
    got = [observed(function, tensors[i % 2]) for i in range(4)]
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
    cases = capture_builtins.CASES | capture_library.CASES | capture_language.CASES
    names = [name for name in cases if not wanted or any(part in name for part in wanted)]
    failed = captured = 0
    for name in names:
        state, detail = run_case(cases[name])
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
