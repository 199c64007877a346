#!/usr/bin/env python3
"""Walks every torch binding, every attribute of Tensor and every aten operator, and checks the class that the engine gives it.

The class says what a call means to the recorder (src/trace/callables.h). It is compared with `classes.txt`, so that a new torch
shows what it brought, and with what a real call does on small tensors, seen from outside: whether it reaches the dispatcher, and
whether it makes tensors, reads data or changes state without. `--bless` writes `classes.txt` anew.
"""

import argparse
import os
import pathlib
import sys

HERE = pathlib.Path(__file__).resolve().parent
EXECUTABLE = os.environ.get("DYNRUN", str(HERE.parent.parent / "build" / "release" / "dynrun"))
if "dynrun" not in os.path.basename(sys.executable):
    os.execv(EXECUTABLE, [EXECUTABLE, "--vm=off", os.path.abspath(__file__), *sys.argv[1:]])

import dynrun  # noqa: E402
import torch  # noqa: E402

import sweep  # noqa: E402
import walk  # noqa: E402

GOLDEN = HERE / "classes.txt"

# Opaque, though they do reach the dispatcher: why they are not recorded there.
KEPT_OPAQUE = {
    "read data": "__bool__ __complex__ __float__ __int__ item numpy tolist is_set_to",
    "change what no operator's result shows": "detach_ resize_ resize_as_ set_ _coalesced_",
    "write Python's data behind the dispatcher": "asarray new new_tensor nested_tensor",
    "depend on a device's or host's memory": "ipu is_pinned pin_memory type",
    "are layers of functorch's": "_enable_functionalization _functionalize_enable_reapply_views _functionalize_get_storage_size",
}
KEPT_OPAQUE = {name: why for why, names in KEPT_OPAQUE.items() for name in names.split()}
# Pure for the tuples that torch gives it; a tensor as the sequence would be unbound.
UNPACKS = {("torch._C", "_has_torch_function")}
# These change state, or hand out what does, without the dispatcher: never recorded as operators.
CHANGES_STATE = {
    "Tensor": "data grad _grad grad_fn names _base _cdata _version _backward_hooks _post_accumulate_grad_hooks requires_grad_ retain_grad set_ "
              "resize_ map_ map2_ apply_ as_subclass _make_subclass _make_wrapper_subclass numpy data_ptr untyped_storage _fix_weakref",
    "torch._C": "_set_default_dtype set_autocast_enabled set_autocast_dtype set_num_threads set_flush_denormal set_anomaly_enabled "
                "_set_deterministic_algorithms _set_default_device _set_float32_matmul_precision _set_mkldnn_enabled _jit_set_profiling_mode",
}

class Tally:
    def __init__(self):
        self.passed = self.failed = self.skipped = 0

    def check(self, good, message):
        if good:
            self.passed += 1
        else:
            self.failed += 1
            print("FAIL", message)


def check_golden(classes, tally):
    known = walk.parse(GOLDEN.read_text()) if GOLDEN.exists() else {}
    for key in sorted(classes.keys() | known.keys()):
        was, now = known.get(key, "not there"), classes.get(key, "not there")
        tally.check(was == now, f"{' '.join(key)}: {now}, in classes.txt: {was}")


def check_seen(key, given, seen, tally):
    """`seen`: what a binding did when it was called; None where no call could be made."""
    name = " ".join(key)
    if seen is None:
        tally.skipped += 1
        return
    if given == "transparent":
        behind = seen & {"changes state", "reads data", "makes a tensor", "gives an object"}
        tally.check(not behind, f"{name} is transparent, but without the dispatcher it {', '.join(sorted(behind))}")
    elif given in ("pure", "modelled"):
        behind = seen & {"changes state", "reads data", "makes a tensor", "dispatches"}
        if key in UNPACKS or (key[0] == "torch._C" and given == "modelled"):  # modes: a recorder function knows what they change
            behind = set()
        tally.check(not behind, f"{name} is {given}, but it {', '.join(sorted(behind))}")
    else:
        tally.check("dispatches" not in seen or key[1] in KEPT_OPAQUE, f"{name} is opaque, but it reaches the dispatcher ({', '.join(sorted(seen))})")


def check_state_changers(classes, tally):
    """Opaque, or with a recorder function of their own; never recorded as an operator, never taken for a mere value."""
    for group, names in CHANGES_STATE.items():
        for name in names.split():
            given = classes.get((group, name), "opaque")
            tally.check(given in ("opaque", "modelled"), f"{group} {name} changes state, but is {given}")
    for (group, name), given in classes.items():
        if group == "torch._C" and name.lstrip("_").startswith(("set_", "clear_", "push_", "pop_", "enable_", "disable_")):
            tally.check(given in ("opaque", "modelled"), f"{group} {name} is {given}")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--filter", default="")
    parser.add_argument("--bless", action="store_true")
    parser.add_argument("--quick", action="store_true", help="the table only, no calls")
    options = parser.parse_args()

    bindings = dict(walk.bindings())
    classes = {key: walk.class_of(binding, dynrun._call_class) for key, binding in bindings.items()}
    if options.bless:
        GOLDEN.write_text(walk.text(classes))
    tally = Tally()
    check_golden(classes, tally)
    check_state_changers(classes, tally)
    if not options.quick:
        chosen = {key: binding for key, binding in bindings.items() if options.filter in " ".join(key)}
        for key, seen in sweep.observe(chosen, classes, dynrun._operator_count):
            check_seen(key, classes[key], seen, tally)
    print(f"{tally.passed} passed, {tally.failed} failed, {tally.skipped} skipped")
    sys.exit(tally.failed != 0)


main()
