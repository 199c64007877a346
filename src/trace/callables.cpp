#include "trace/callables.h"

#include "python/import.h"
#include "python/reference.h"
#include "python/text.h"

#include <torch/csrc/jit/runtime/operator.h>

#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

namespace dynrun::trace {

using python::Ref;

namespace {

std::unordered_map<PyObject*, CallKind>& table() {
  static auto* kinds = new std::unordered_map<PyObject*, CallKind>();
  return *kinds;
}

void put(const Ref& object, CallKind kind) {
  if (object) table()[Py_NewRef(object.get())] = kind;
}

void put_all(const std::string& owner, const std::vector<const char*>& names, CallKind kind) {
  for (const char* name : names) {
    Ref object = import_path(owner + (owner.find(':') == std::string::npos ? ":" : ".") + name);
    put(object, kind);
  }
}

/// Methods by the descriptors in a class's own table: reading them off the class would bind them to it.
void put_descriptors(const std::string& owner, const std::vector<const char*>& names, CallKind kind) {
  Ref type = import_path(owner);
  for (const char* text : names) {
    Ref name = Ref::steal(PyUnicode_InternFromString(text));
    PyObject* found = type && PyType_Check(type.get()) ? _PyType_Lookup(reinterpret_cast<PyTypeObject*>(type.get()), name.get()) : nullptr;
    if (found) table()[Py_NewRef(found)] = kind;
  }
}

constexpr CallKind kPureKind{CallClass::kPure, Model::kNone};
constexpr CallKind kTransparentKind{CallClass::kTransparent, Model::kNone};
constexpr CallKind kOpaqueKind{CallClass::kOpaque, Model::kNone};
constexpr CallKind modelled(Model model) { return {CallClass::kModelled, model}; }

void add_builtins() {
  put_all("builtins",
          {"len", "callable", "abs", "min", "max", "sum", "sorted", "round", "divmod", "pow", "iter", "any", "all", "chr",
           "ord", "format", "repr", "bin", "hex", "oct", "int", "float", "bool", "str", "tuple", "list", "dict", "set",
           "frozenset", "range", "zip", "enumerate", "reversed", "slice", "complex", "bytes", "type", "map", "filter", "super"},
          kPureKind);
  put_all("builtins", {"isinstance", "issubclass"}, modelled(Model::kIsInstance));
  put_all("builtins", {"getattr", "hasattr"}, modelled(Model::kGetAttribute));
  put_all("builtins", {"object.__getattribute__"}, modelled(Model::kGenericGetAttribute));
  put_all("builtins", {"setattr", "object.__setattr__"}, modelled(Model::kSetAttribute));
  put_all("builtins", {"delattr"}, modelled(Model::kDeleteAttribute));
  put_all("builtins", {"next"}, modelled(Model::kIterNext));
  put_all("builtins", {"id"}, modelled(Model::kIdentity));
  put_all("builtins", {"hash"}, modelled(Model::kHash));
  put_all("builtins", {"print"}, modelled(Model::kPrint));
  put_all("builtins:str", {"join", "split", "rsplit", "startswith", "endswith", "strip", "lstrip", "rstrip", "lower", "upper",
                           "replace", "format", "find", "rfind", "count", "partition", "rpartition", "isdigit", "isidentifier",
                           "title", "capitalize", "index", "zfill", "__len__", "__contains__", "__eq__", "__getitem__"},
          kPureKind);
  put_all("builtins:int", {"bit_length", "__index__", "__int__"}, kPureKind);
  put_all("builtins:float", {"is_integer", "__int__", "as_integer_ratio"}, kPureKind);
  put_all("builtins:tuple", {"index", "count", "__len__", "__getitem__", "__contains__", "__iter__"}, kPureKind);
  put_all("builtins:list", {"index", "count", "copy", "__len__", "__getitem__", "__contains__", "__iter__"}, kPureKind);
  put_all("builtins:list", {"append"}, modelled(Model::kListAppend));
  put_all("builtins:list", {"extend", "insert", "pop", "remove", "reverse", "clear", "sort", "__setitem__", "__delitem__", "__init__"},
          modelled(Model::kWriteFresh));
  put_all("builtins:dict", {"keys", "values", "items", "copy", "__len__", "__iter__"}, kPureKind);
  put_all("builtins:dict", {"get", "__getitem__", "__contains__"}, modelled(Model::kDictGet));
  put_all("builtins:dict", {"update", "popitem", "setdefault", "clear", "__setitem__", "__delitem__", "__init__"},
          modelled(Model::kWriteFresh));
  put_all("builtins:dict", {"pop"}, modelled(Model::kDictPop));
  put_all("builtins:set", {"isdisjoint", "symmetric_difference"}, kPureKind);
  put_all("builtins:frozenset", {"isdisjoint", "symmetric_difference", "copy"}, kPureKind);
  put_all("builtins:set", {"intersection_update", "difference_update", "symmetric_difference_update"}, modelled(Model::kWriteFresh));
  put_all("builtins:str", {"splitlines", "removeprefix", "removesuffix", "isalpha", "isalnum", "isnumeric", "isspace", "isupper", "islower", "ljust",
                           "rjust", "center", "casefold", "swapcase", "encode", "expandtabs", "translate", "format_map", "rindex", "__mod__", "__add__",
                           "__str__", "__format__", "__ne__", "__lt__", "__hash__"},
          kPureKind);
  put_all("builtins:bytes", {"decode", "hex"}, kPureKind);
  put_all("builtins:set", {"__contains__", "union", "intersection", "difference", "issubset", "issuperset", "copy", "__len__"}, kPureKind);
  put_all("builtins:set", {"add", "discard", "remove", "update", "clear", "pop", "__init__"}, modelled(Model::kWriteFresh));
  put_all("builtins:frozenset", {"__contains__", "union", "intersection", "difference", "issubset", "issuperset", "__len__"}, kPureKind);
  put_all("torch._C", {"_len_torch_dispatch_stack"}, kPureKind);
  put_all("torch._C", {"_functorch.unwrap_if_dead"}, kTransparentKind);
  put_all("collections", {"OrderedDict"}, kPureKind);
  put_all("sys", {"intern"}, kPureKind);
  put_all("_struct", {"pack", "unpack", "calcsize"}, kPureKind);
  put_all("sys", {"getrecursionlimit"}, modelled(Model::kState));
  put_all("collections:OrderedDict", {"keys", "values", "items", "copy", "__iter__"}, kPureKind);
  put_all("collections:OrderedDict", {"update", "pop", "popitem", "setdefault", "clear", "__setitem__", "__delitem__", "__init__", "move_to_end"},
          modelled(Model::kWriteFresh));
  put_all("contextvars:ContextVar", {"get"}, modelled(Model::kContextGet));
  put_all("contextvars:ContextVar", {"set"}, modelled(Model::kContextSet));
  put_all("contextvars:ContextVar", {"reset"}, modelled(Model::kContextReset));
  put_all("builtins", {"object.__new__", "dict.__new__"}, modelled(Model::kNew));
  put_all("types:MappingProxyType", {"keys", "values", "items", "get", "__getitem__", "__contains__", "__len__", "__iter__"}, kPureKind);
  put_all("types", {"MappingProxyType"}, kPureKind);
  put_all("builtins:object", {"__init__", "__init_subclass__"}, kPureKind);
  put_all("math", {"fsum", "comb", "perm", "factorial", "atan2", "asin", "acos", "sinh", "cosh", "asinh", "acosh", "atanh", "degrees", "radians",
                   "dist", "lcm", "isqrt", "modf", "cbrt", "exp2", "remainder", "frexp", "ldexp", "nextafter", "ulp", "gamma", "lgamma", "erfc",
                   "sumprod"},
          kPureKind);
  put_all("math", {"sqrt", "ceil", "floor", "log", "log2", "log10", "exp", "pow", "sin", "cos", "tan", "tanh", "atan", "prod", "gcd",
                   "isnan", "isinf", "isfinite", "fabs", "fmod", "trunc", "copysign", "hypot", "erf", "isclose", "log1p", "expm1"},
          kPureKind);
  put_all("operator", {"add", "sub", "mul", "truediv", "floordiv", "mod", "neg", "eq", "ne", "lt", "le", "gt", "ge", "getitem",
                       "and_", "or_", "not_", "truth", "index", "is_", "is_not", "contains", "itemgetter", "attrgetter", "matmul", "pow",
                       "methodcaller", "xor", "lshift", "rshift", "pos", "abs", "inv", "invert", "concat", "length_hint", "countOf", "indexOf"},
          kPureKind);
  put_all("operator", {"iadd", "isub", "imul", "itruediv", "ifloordiv", "imod", "ipow", "iand", "ior", "ixor", "ilshift", "irshift", "imatmul",
                       "iconcat", "setitem", "delitem"},
          modelled(Model::kWriteFirst));
  put_all("sys", {"exc_info", "exception"}, modelled(Model::kHandled));
  put_all("builtins", {"globals"}, modelled(Model::kGlobals));
  put_all("builtins", {"vars"}, modelled(Model::kVariables));
  put_all("_abc", {"get_cache_token"}, modelled(Model::kState));
  put_all("itertools", {"chain", "repeat", "islice", "zip_longest", "product", "starmap", "accumulate", "permutations",
                        "combinations", "combinations_with_replacement", "count", "groupby", "takewhile", "dropwhile", "pairwise", "batched",
                        "cycle", "tee", "compress", "filterfalse"},
          kPureKind);
  put_all("_functools", {"reduce", "partial", "cmp_to_key"}, kPureKind);
  put_all("types", {"MethodType"}, kPureKind);
  put_descriptors("itertools:chain", {"from_iterable"}, kPureKind);
  put_descriptors("builtins:dict", {"fromkeys"}, kPureKind);
  put_descriptors("builtins:int", {"from_bytes"}, kPureKind);
  put_descriptors("builtins:type", {"__instancecheck__", "__subclasscheck__"}, modelled(Model::kIsInstance));
  put_all("builtins:tuple", {"__new__"}, modelled(Model::kNewTuple));
  put_all("collections", {"deque", "defaultdict"}, kPureKind);
  put_all("collections:deque", {"append", "appendleft", "extend", "extendleft", "pop", "popleft", "rotate", "insert", "remove", "clear", "reverse"},
          modelled(Model::kWriteFresh));
  put_all("collections:deque", {"copy", "count", "index"}, kPureKind);
  put_all("_collections", {"_count_elements"}, modelled(Model::kWriteFirst));
  put_all("types:GeneratorType", {"send", "close", "throw"}, modelled(Model::kGenerator));
  put_all("builtins:BaseException", {"__init__", "with_traceback"}, modelled(Model::kWriteFresh));
  for (const char* name : {"Exception", "ValueError", "RuntimeError", "TypeError", "KeyError", "IndexError", "LookupError", "ArithmeticError",
                           "AttributeError", "NotImplementedError", "StopIteration", "OSError", "AssertionError"})
    put_descriptors(std::string("builtins:") + name, {"__init__"}, modelled(Model::kWriteFresh));
  put_descriptors("types:FunctionType", {"__get__"}, kPureKind);
  put_descriptors("builtins:property", {"__init__"}, modelled(Model::kWriteFresh));
}

/// Functions of torch's bindings that are not the plain operators they look like: they read data, make tensors or change state
/// behind the dispatcher, or are of a kind that is not recorded. (tests/bindings calls them all and compares.)
const std::unordered_set<std::string>& opaque_torch_names() {
  static const std::unordered_set<std::string> names = {
      "numpy", "tolist", "item", "__bool__", "__int__", "__float__", "__index__", "__complex__", "__array__", "data_ptr", "storage",
      "untyped_storage", "_typed_storage", "is_set_to", "storage_offset", "_is_view", "has_names", "_is_alias_of", "_nbytes", "set_", "resize_", "resize_as_", "requires_grad_", "retain_grad",
      "_make_subclass", "_make_wrapper_subclass", "_make_dtensor", "map_", "map2_", "apply_", "share_memory_", "is_shared", "backward",
      "_backward", "register_hook", "_use_count", "_view_func", "_view_func_unsafe", "_rev_view_func_unsafe", "_fix_weakref", "rename_", "rename",
      "refine_names", "align_to", "unflatten_names", "detach_", "new", "_standard_name", "from_numpy", "frombuffer",
      "asarray", "_from_functional_tensor", "_to_functional_tensor", "_sync", "_enable_functionalization", "_disable_functionalization",
      "_is_functional_tensor", "_functionalize_replace", "_functionalize_commit_update", "__dlpack__", "from_file", "pin_memory",
      "is_pinned", "type", "xpu", "ipu", "hpu", "_coalesced_", "record_stream", "as_subclass", "set_data", "__setstate__",
      "_get_tracing_state", "module_load", "__deepcopy__", "nested_tensor", "__new__", "__init__", "__reduce_ex__"};
  return names;
}

/// Those that read a tensor's type and nothing else.
const std::unordered_set<std::string>& metadata_names() {
  static const std::unordered_set<std::string> names = {
      "_is_zerotensor", "dim", "element_size", "get_device", "is_complex", "is_conj", "is_contiguous", "is_floating_point", "is_inference",
      "is_neg", "is_signed", "ndimension", "nelement", "numel"};
  return names;
}

CallKind torch_kind(const std::string& name) {
  if (opaque_torch_names().count(name)) return kOpaqueKind;
  return metadata_names().count(name) ? modelled(Model::kMetadata) : kTransparentKind;
}

void add_torch_functions(const std::string& owner) {
  Ref object = import_path(owner);
  if (!object) return;
  Ref names = Ref::steal(PyObject_Dir(object.get()));
  for (Py_ssize_t i = 0; names && i < PyList_GET_SIZE(names.get()); i++) {
    PyObject* name = PyList_GET_ITEM(names.get(), i);
    Ref function = Ref::steal(PyObject_GetAttr(object.get(), name));
    if (!function) {
      PyErr_Clear();
      continue;
    }
    if (!PyCFunction_Check(function.get())) continue;
    std::string text = python::text_of(name);
    static const std::unordered_set<std::string> operators = {"__and__", "__or__", "__xor__", "__lshift__", "__rshift__"};
    if (text.rfind("__", 0) == 0 && !operators.count(text)) continue;
    put(function, torch_kind(text));
  }
}

/// Attributes that are properties of a tensor's type (sizes, dtype, device, ...), which is guarded, and attributes that call an operator.
void add_tensor_attributes() {
  put_all("torch._C:TensorBase",
          {"shape", "dtype", "device", "ndim", "layout", "requires_grad", "is_leaf", "itemsize", "nbytes", "is_cuda", "is_cpu", "is_sparse",
           "is_sparse_csr", "is_quantized", "is_meta", "is_mkldnn", "is_mps", "is_xpu", "is_vulkan", "is_ipu", "is_xla", "is_maia",
           "is_mtia", "is_nested"},
          modelled(Model::kMetadata));
  put_all("torch._C:TensorBase", {"T", "mT", "H", "mH", "real", "imag"}, kTransparentKind);
}

void add_tensor_methods() {
  Ref type = import_path("torch._C:TensorBase");
  if (!type) return;
  Ref dict = Ref::steal(PyType_GetDict(reinterpret_cast<PyTypeObject*>(type.get())));
  Py_ssize_t at = 0;
  PyObject *name, *value;
  while (dict && PyDict_Next(dict.get(), &at, &name, &value)) {
    if (Py_TYPE(value) != &PyMethodDescr_Type && Py_TYPE(value) != &PyWrapperDescr_Type) continue;
    std::string text = python::text_of(name);
    table()[Py_NewRef(value)] = torch_kind(text);
  }
}

void add_torch() {
  add_torch_functions("torch._C:_VariableFunctions");
  add_torch_functions("torch._C:_VariableFunctionsClass");
  for (const char* module : {"torch._C._nn", "torch._C._fft", "torch._C._linalg", "torch._C._special", "torch._C._sparse", "torch._C._nested"})
    add_torch_functions(module);
  add_tensor_methods();
  add_tensor_attributes();
  put_all("torch._C._nn", {"_parse_to"}, kPureKind);
  put_all("torch._C", {"_group_tensors_by_device_and_dtype"}, kPureKind);  // the very tensors, by what is guarded of them
  put_all("torch._C", {"_get_tracing_state", "_has_torch_function", "_has_torch_function_unary", "_has_torch_function_variadic",
                       "is_grad_enabled", "is_inference_mode_enabled", "is_autocast_enabled", "is_autocast_cpu_enabled", "_log_api_usage_once",
                       "get_autocast_dtype", "get_autocast_cpu_dtype", "_is_torch_function_enabled", "_len_torch_function_stack",
                       "_get_autocast_enabled", "is_any_autocast_enabled", "_is_any_autocast_enabled", "_functorch.maybe_current_level",
                       "_are_functorch_transforms_active", "_get_deterministic_algorithms", "get_default_dtype", "_is_tracing",
                       "_get_cudnn_enabled", "_get_mkldnn_enabled", "_is_torch_function_all_disabled", "_get_flash_sdp_enabled",
                       "_get_mem_efficient_sdp_enabled", "_get_math_sdp_enabled", "_get_cudnn_benchmark", "_get_cudnn_deterministic", "_is_mkldnn_enabled",
                       "_infer_size", "_get_float32_matmul_precision",
                       "is_grad_enabled", "_functorch.is_functorch_wrapped_tensor", "_functorch.peek_interpreter_stack"},
          kPureKind);
  put_all("torch", {"is_grad_enabled", "is_inference_mode_enabled", "is_autocast_enabled", "is_autocast_cpu_enabled", "get_autocast_dtype",
                    "get_default_dtype", "Size", "device", "finfo", "iinfo"},
          kPureKind);
  put_descriptors("torch:Size", {"numel"}, kPureKind);
  put_all("torch._C", {"_is_in_bad_fork", "_cuda_isInBadFork", "_get_cudnn_allow_tf32", "_get_cublas_allow_tf32", "_get_overrideable_sdp_enabled",
                       "_get_cudnn_sdp_enabled", "_get_nnpack_enabled", "_get_deterministic_fill_uninitialized_memory", "_get_fp32_precision_getter",
                       "_get_default_device", "_dispatch_has_kernel", "_cuda_isCurrentStreamCapturing", "_cuda_getDeviceCount", "_cuda_getDevice"},
          modelled(Model::kState));
  put_all("torch._C", {"_cuda_exchangeDevice", "_cuda_maybeExchangeDevice", "_cuda_setDevice"}, modelled(Model::kSetDevice));
  put_all("_abc", {"_abc_instancecheck", "_abc_subclasscheck"}, kPureKind);
  put_all("torch._C", {"_set_grad_enabled", "set_grad_enabled"}, modelled(Model::kSetGrad));
  put_all("torch", {"set_autocast_enabled", "set_autocast_dtype", "set_autocast_cache_enabled", "autocast_increment_nesting",
                    "autocast_decrement_nesting", "clear_autocast_cache"},
          modelled(Model::kAutocast));
  put_all("torch._C", {"_is_autocast_available", "_get_privateuse1_backend_name", "_is_torch_function_mode_enabled"}, kPureKind);
  put_all("torch", {"is_autocast_cache_enabled"}, kPureKind);
  put_all("_warnings", {"warn"}, modelled(Model::kWarn));
}

}  // namespace

Ref import_path(const std::string& path) {
  auto colon = path.find(':');
  Ref object = python::import_module(path.substr(0, colon).c_str());
  std::string rest = colon == std::string::npos ? "" : path.substr(colon + 1);
  while (object && !rest.empty()) {
    auto dot = rest.find('.');
    object = Ref::steal(PyObject_GetAttrString(object.get(), rest.substr(0, dot).c_str()));
    rest = dot == std::string::npos ? "" : rest.substr(dot + 1);
  }
  if (!object) PyErr_Clear();
  return object;
}

void build_callable_table() {
  add_torch();
  add_builtins();  // last: a shared object keeps the stricter class
}

PyObject* descriptor_in(PyObject* mro, PyMethodDef* method) {
  Ref name = Ref::steal(PyUnicode_FromString(method->ml_name));
  for (Py_ssize_t i = 0; name && mro && i < PyTuple_GET_SIZE(mro); i++) {
    Ref dict = Ref::steal(PyType_GetDict(reinterpret_cast<PyTypeObject*>(PyTuple_GET_ITEM(mro, i))));
    PyObject* found = dict ? PyDict_GetItemWithError(dict.get(), name.get()) : nullptr;
    bool descriptor = found && (Py_TYPE(found) == &PyMethodDescr_Type || Py_TYPE(found) == &PyClassMethodDescr_Type);
    if (descriptor && reinterpret_cast<PyMethodDescrObject*>(found)->d_method == method) return found;
  }
  PyErr_Clear();
  return nullptr;
}

/// The descriptor behind a method bound to an object: one of its classes', or, of a class, one of its own. Borrowed, or null.
static PyObject* behind_bound_method(PyObject* self, PyObject* function) {
  PyMethodDef* method = reinterpret_cast<PyCFunctionObject*>(function)->m_ml;
  PyObject* own = PyType_Check(self) ? descriptor_in(reinterpret_cast<PyTypeObject*>(self)->tp_mro, method) : nullptr;
  return own ? own : descriptor_in(Py_TYPE(self)->tp_mro, method);
}

PyObject* bound_object(PyObject* function) {
  PyObject* self = PyCFunction_Check(function) ? PyCFunction_GET_SELF(function) : nullptr;
  if (self == nullptr || PyModule_Check(self) || PyType_Check(self) || PyCapsule_CheckExact(self)) return nullptr;
  return std::string(Py_TYPE(self)->tp_name).rfind("pybind11_", 0) == 0 ? nullptr : self;
}

/// What torch.cuda gets when a GPU is first used, long after the table was made.
static bool tells_gpu_properties(PyObject* callable) {
  if (!PyCFunction_Check(callable) || std::string_view(reinterpret_cast<PyCFunctionObject*>(callable)->m_ml->ml_name) != "_get_device_properties") return false;
  return import_path("torch.cuda:_get_device_properties").get() == callable;
}

CallKind classify_callable(PyObject* callable) {
  auto found = table().find(callable);
  if (found != table().end()) return found->second;
  if (tells_gpu_properties(callable)) return kPureKind;
  // A method bound to an object: judged by the unbound one.
  if (PyCFunction_Check(callable)) {
    if (PyCFunction_GET_SELF(callable) && PyType_Check(PyCFunction_GET_SELF(callable))) {
      PyObject* descriptor = behind_bound_method(PyCFunction_GET_SELF(callable), callable);
      found = descriptor ? table().find(descriptor) : table().end();
      return found == table().end() ? CallKind{} : found->second;
    }
    if (PyObject* self = bound_object(callable)) {
      Ref name = Ref::steal(PyUnicode_FromString(reinterpret_cast<PyCFunctionObject*>(callable)->m_ml->ml_name));
      PyObject* descriptor = name ? _PyType_Lookup(Py_TYPE(self), name.get()) : nullptr;
      found = descriptor ? table().find(descriptor) : table().end();
      if (found != table().end()) return found->second;
      descriptor = behind_bound_method(self, callable);  // the class has one of its own, which calls super()'s
      found = descriptor ? table().find(descriptor) : table().end();
      if (found != table().end()) return found->second;
    }
  }
  return {};
}

CallKind classify_attribute(PyObject* descriptor) {
  auto found = descriptor && Py_TYPE(descriptor) == &PyGetSetDescr_Type ? table().find(descriptor) : table().end();
  return found == table().end() ? CallKind{} : found->second;
}

namespace {

/// The text of a string attribute; empty where there is none.
std::string text_attribute(PyObject* object, const char* name) {
  Ref text = Ref::steal(PyObject_GetAttrString(object, name));
  const char* utf8 = text && PyUnicode_Check(text.get()) ? python::text_of(text.get()) : nullptr;
  PyErr_Clear();
  return utf8 ? utf8 : "";
}

}  // namespace

CallKind classify_operator(PyObject* overload_or_packet) {
  static const python::Kept overload_class = import_path("torch._ops:OpOverload"), packet_class = import_path("torch._ops:OpOverloadPacket");
  auto* type = reinterpret_cast<PyObject*>(Py_TYPE(overload_or_packet));
  if (type != overload_class.get() && type != packet_class.get()) return {};
  Ref function = Ref::steal(PyObject_GetAttrString(overload_or_packet, "_op"));
  PyErr_Clear();
  if (!function || !PyCFunction_Check(function.get())) return {};
  if (auto found = table().find(function.get()); found != table().end()) return found->second;
  bool packet = type == packet_class.get();
  std::string name = text_attribute(overload_or_packet, packet ? "_qualified_op_name" : "_name");
  if (name.rfind("aten::", 0) != 0 && name.rfind("torchvision::", 0) != 0) return {};  // others may be Python code that sees what is not written yet
  std::string overload = packet || name.find('.') == std::string::npos ? "" : name.substr(name.find('.') + 1);
  bool reaches = false;
  for (const auto& op : torch::jit::getAllOperatorsFor(c10::Symbol::fromQualString(name.substr(0, name.find('.'))))) {
    reaches = reaches || (op->isC10Op() && (packet || op->schema().overload_name() == overload));
  }
  CallKind kind = reaches ? kTransparentKind : kOpaqueKind;
  put(function, kind);
  return kind;
}

CallKind classify(PyObject* object) {
  if (CallKind kind = classify_callable(object); kind.call_class != CallClass::kOpaque) return kind;
  if (CallKind kind = classify_attribute(object); kind.call_class != CallClass::kOpaque) return kind;
  return classify_operator(object);
}

void classify_as(PyObject* callable, CallKind kind) { put(Ref::borrow(callable), kind); }

const char* class_name(CallClass call_class) {
  switch (call_class) {
    case CallClass::kTransparent: return "transparent";
    case CallClass::kPure: return "pure";
    case CallClass::kModelled: return "modelled";
    case CallClass::kOpaque: return "opaque";
  }
  return "?";
}

bool is_method(PyObject* callable, PyObject* method) {
  if (callable == method) return true;
  return method && PyCFunction_CheckExact(callable) && reinterpret_cast<PyCFunctionObject*>(callable)->m_ml == reinterpret_cast<PyMethodDescrObject*>(method)->d_method;
}

std::string callable_name(PyObject* callable) {
  for (const char* attribute : {"__qualname__", "__name__"}) {
    Ref name = Ref::steal(PyObject_GetAttrString(callable, attribute));
    if (name && PyUnicode_Check(name.get())) return python::text_of(name.get());
    PyErr_Clear();
  }
  return Py_TYPE(callable)->tp_name;
}

}  // namespace dynrun::trace
