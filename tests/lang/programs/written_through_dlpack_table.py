# C functions in the table of `torch.Tensor.__dlpack_c_exchange_api__` tell where a tensor lies, and who asked may write there.
import ctypes

import torch


class Tensor(ctypes.Structure):
    _fields_ = [("data", ctypes.c_void_p), ("device", ctypes.c_int32 * 2), ("ndim", ctypes.c_int32), ("dtype", ctypes.c_uint8 * 4),
                ("shape", ctypes.POINTER(ctypes.c_int64)), ("strides", ctypes.POINTER(ctypes.c_int64)), ("byte_offset", ctypes.c_uint64)]


class Table(ctypes.Structure):
    _fields_ = [("version", ctypes.c_uint32 * 2), ("previous", ctypes.c_void_p), ("allocate", ctypes.c_void_p),
                ("managed", ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.py_object, ctypes.POINTER(ctypes.c_void_p))), ("wrap", ctypes.c_void_p),
                ("describe", ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.py_object, ctypes.POINTER(Tensor))), ("stream", ctypes.c_void_p)]


get = ctypes.pythonapi.PyCapsule_GetPointer
get.restype, get.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
table = ctypes.cast(get(torch.Tensor.__dlpack_c_exchange_api__, b"dlpack_exchange_api"), ctypes.POINTER(Table)).contents


def described(tensor):
    seen = Tensor()
    assert table.describe(tensor, ctypes.byref(seen)) == 0
    return seen


def managed(tensor):
    owner = ctypes.c_void_p()
    assert table.managed(tensor, ctypes.byref(owner)) == 0
    return ctypes.cast(owner.value + 32, ctypes.POINTER(Tensor)).contents  # behind its version, its context, its deleter and its flags


model = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.ReLU(), torch.nn.Linear(2, 2)).eval()
with torch.no_grad():
    for parameter in model.parameters():
        parameter.fill_(1)


def evaluate():
    with torch.no_grad():
        return round(model(torch.ones(1, 2)).sum().item(), 3)


print([evaluate() for _ in range(4)])
for layer, look in ((model[0], described), (model[2], managed)):
    seen = look(layer.weight.detach())
    numbers = (ctypes.c_float * 4).from_address(seen.data)
    print([seen.shape[i] for i in range(seen.ndim)], list(numbers), [evaluate() for _ in range(4)])
    numbers[0] = numbers[3] = 5.0
    print([evaluate() for _ in range(4)])
    numbers[1] = 3.0
    print([evaluate() for _ in range(4)])
