"""Weights whose storages Python has seen: models that were copied or saved, and writes through what is left of the storage."""

import copy
import ctypes
import io
import warnings
import weakref

import torch
from torch.multiprocessing.reductions import StorageWeakRef


warnings.simplefilter("ignore")


def make():
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Conv2d(2, 3, 3), torch.nn.BatchNorm2d(3)).eval()


x = torch.arange(2 * 5 * 5, dtype=torch.float32).reshape(1, 2, 5, 5) / 25


def run(model, times=8):
    for _ in range(times):
        out = model(x)
    return [round(value, 3) for value in out.sum((0, 2, 3)).tolist()]


def saved(model):
    torch.save(model.state_dict(), io.BytesIO())


def through_storage(model):
    model[1].running_mean.untyped_storage().fill_(0)


def through_typed(model):
    model[1].running_var.storage()[0] = 4.0


def through_item(model):
    for i in range(4):
        model[1].running_mean.untyped_storage()[i] = 0x3F


with torch.no_grad():
    for name, prepare in {"copied": copy.deepcopy, "saved": saved, "averaged": torch.optim.swa_utils.AveragedModel,
                          "seen": lambda model: model[1].running_mean.untyped_storage()}.items():
        model = make()
        model[1].running_mean.fill_(0.5)
        other = prepare(model)
        print(name, run(model))
        for write in (through_storage, through_typed, through_item):
            write(model)
            print(name, write.__name__, run(model), run(copy.deepcopy(model)))
        model.load_state_dict(make().state_dict())
        print(name, "loaded", run(model))

    # What was kept from before, and holds nothing or only the address.
    model = make()
    storage = model[1].running_mean.untyped_storage()
    known = weakref.ref(storage)
    del storage
    print("weakly", run(model))
    if known() is not None:
        known().fill_(0)
        known()[3] = 0x40
    print("weakly written", run(model))

    model = make()
    weak = StorageWeakRef(model[1].running_mean.untyped_storage())
    print("torch's weak reference", run(model))
    torch.UntypedStorage._new_with_weak_ptr(weak.cdata)[3] = 0x40
    print("written", run(model))

    model = make()
    address = model[1].running_var.untyped_storage().data_ptr()
    print("address", run(model))
    ctypes.c_float.from_address(address).value = 9.0
    print("written", run(model))

    model = make()
    saved(model)
    address = model[1].running_var.data_ptr()
    print("saved, address", run(model))
    ctypes.c_float.from_address(address).value = 9.0
    print("written", run(model))

    buffer = io.BytesIO()
    torch.save(make(), buffer)
    buffer.seek(0)
    model = torch.load(buffer, weights_only=False)
    print("read", run(model))
    through_item(model)
    print("written", run(model))
    model[1].running_mean.add_(1)
    print("added to", run(model))

    # Written without a move of the version counter.
    model = make()
    print("evaluated", run(model))
    for step in range(3):
        model.train()
        model(x * (step + 2) + 3)
        print("adapted", step, run(model.eval()))
    statistics = model[1].running_mean, model[1].running_var
    torch.native_batch_norm(torch.ones(2, 3, 4, 4), None, None, *statistics, True, 0.5, 1e-5)
    print("by itself", run(model))
    for fused in (torch.optim.AdamW, torch.optim.SGD):
        model = make()
        optimizer = fused(model.parameters(), lr=0.1, fused=True)
        for step in range(3):
            with torch.enable_grad():
                model(x).square().mean().backward()
            optimizer.step()
            optimizer.zero_grad()
            print(fused.__name__, step, run(model))
    model = make()
    print("before", run(model))
    other = torch.nn.BatchNorm2d(3)
    other.running_mean.data = model[1].running_mean
    other.running_mean.add_(2)
    del other
    print("through .data", run(model))
    alias = torch.empty(0).set_(model[1].running_mean)
    alias.sub_(1)
    del alias
    print("through set_", run(model))
    model[1].running_mean.apply_(lambda value: value + 4)
    print("applied", run(model))

    rows = torch.full((3,), 0.5).numpy()
    model = make()
    model[1].running_mean = torch.from_numpy(rows)
    print("numpy's", run(model))
    rows[0] = 3
    print("written", run(model))

    model = make()
    copy.deepcopy(model)
    kept = model[1].running_mean.untyped_storage()
    print("kept", run(model))
    kept[3] = 0x40
    print("written", run(model))
    del kept
    print("let go", run(model))
    model[1].running_mean.untyped_storage()[3] = 0x3F
    print("written", run(model))
    model[1].running_mean.add_(1)
    print("added to", run(model))
