#include "engine/fx_bridge.h"

#include "guards/torch_python.h"

#include <torch/csrc/Device.h>
#include <torch/csrc/DynamicTypes.h>
#include <torch/csrc/utils/tensor_memoryformats.h>

#include <ATen/core/function_schema.h>

namespace dynrun::engine {

using graph::Argument;
using graph::kNoValue;
using python::Ref;

namespace {

Ref text(std::string_view value) { return Ref::steal(PyUnicode_DecodeUTF8(value.data(), static_cast<Py_ssize_t>(value.size()), "replace")); }
Ref number(std::int64_t value) { return Ref::steal(PyLong_FromLongLong(value)); }
Ref truth(bool value) { return Ref::steal(PyBool_FromLong(value)); }
Ref none() { return Ref::borrow(Py_None); }
Ref dtype_object(c10::ScalarType type) { return Ref::borrow(reinterpret_cast<PyObject*>(torch::getTHPDtype(type))); }

/// A list of what `make` gives for each item.
template <typename Items, typename Make>
Ref list(const Items& items, Make make) {
  Ref out = Ref::steal(PyList_New(0));
  for (const auto& item : items) {
    Ref made = out ? make(item) : Ref();
    if (!made || PyList_Append(out.get(), made.get()) < 0) return Ref();
  }
  return out;
}

/// Null where one of the items is.
template <typename... Items>
Ref tuple(const Items&... items) {
  if (!(items && ...)) return Ref();
  return Ref::steal(PyTuple_Pack(sizeof...(items), items.get()...));
}

const c10::Type* inner(const c10::TypePtr& type) {
  if (const auto* optional = type->castRaw<c10::OptionalType>()) return inner(optional->getElementType());
  return type.get();
}

/// `type`: what the schema says of it; a dtype, a layout and a memory format are numbers in an IValue.
Ref constant(const c10::IValue& value, const c10::Type& type) {
  if (value.isNone()) return none();
  if (value.isBool()) return truth(value.toBool());
  if (value.isInt()) {
    switch (type.kind()) {
      case c10::TypeKind::ScalarTypeType: return dtype_object(value.toScalarType());
      case c10::TypeKind::LayoutType: return Ref::borrow(reinterpret_cast<PyObject*>(torch::getTHPLayout(value.toLayout())));
      case c10::TypeKind::MemoryFormatType: return Ref::borrow(torch::utils::getTHPMemoryFormat(value.toMemoryFormat()));
      default: return number(value.toInt());
    }
  }
  if (value.isSymInt()) return number(value.toSymInt().guard_int(__FILE__, __LINE__));
  if (value.isDouble()) return Ref::steal(PyFloat_FromDouble(value.toDouble()));
  if (value.isComplexDouble()) return Ref::steal(PyComplex_FromDoubles(value.toComplexDouble().real(), value.toComplexDouble().imag()));
  if (value.isString()) return text(value.toStringRef());
  if (value.isDevice()) return Ref::steal(THPDevice_New(value.toDevice()));
  if (value.isList()) {
    const auto* items = type.castRaw<c10::ListType>();
    const c10::Type& element = items ? *inner(items->getElementType()) : type;
    const c10::List<c10::IValue> content = value.toList();
    return list(content.vec(), [&](const c10::IValue& item) { return constant(item, element); });
  }
  PyErr_Format(PyExc_NotImplementedError, "a constant of kind %s", value.tagKind().c_str());
  return Ref();
}

Ref argument_of(const Argument& argument, const c10::Type& type) {
  if (argument.is_value()) return argument.value() == kNoValue ? tuple(none()) : tuple(number(argument.value()));
  if (argument.is_list()) return list(argument.items(), [&](const Argument& item) { return argument_of(item, type); });
  return constant(argument.constant(), type);
}

bool is_default(const Argument& argument, const c10::Argument& declared) {
  if (!argument.is_constant() || !declared.default_value()) return false;
  const c10::IValue &given = argument.constant(), &usual = *declared.default_value();
  if (given.isList() || usual.isList()) return false;
  return given.tagKind() == usual.tagKind() && (given.isNone() || given == usual);
}

Ref value_number(graph::ValueId id) { return id == kNoValue ? none() : number(id); }

/// Back ends see autocast's casts of weights as the casts that they are.
Ref cast_of(const graph::Node& node) {
  Ref dtype = dtype_object(node.arguments[1].constant().toScalarType());
  Ref positional = dtype ? Ref::steal(Py_BuildValue("[OO]", argument_of(node.arguments[0], *c10::TensorType::get()).get(), dtype.get())) : Ref();
  return tuple(text("aten::to"), text("dtype"), positional, Ref::steal(PyDict_New()), list(node.outputs, value_number), list(node.return_lengths, number), engine::mode_of(node.mode),
               number(node.source));
}

Ref node_of(const graph::Node& node) {
  if (node.op_name() == "dynrun::cached_cast") return cast_of(node);
  const c10::FunctionSchema& schema = node.op.schema();
  std::size_t count = node.arguments.size();
  while (count > 0 && is_default(node.arguments[count - 1], schema.arguments()[count - 1])) count--;
  Ref positional = Ref::steal(PyList_New(0)), keywords = Ref::steal(PyDict_New());
  if (!positional || !keywords) return Ref();
  for (std::size_t i = 0; i < count; i++) {
    const c10::Argument& declared = schema.arguments()[i];
    if (declared.kwarg_only() && is_default(node.arguments[i], declared)) continue;
    Ref made = argument_of(node.arguments[i], *inner(declared.real_type()));
    if (!made) return Ref();
    const int failed = declared.kwarg_only() ? PyDict_SetItemString(keywords.get(), declared.name().c_str(), made.get()) : PyList_Append(positional.get(), made.get());
    if (failed) return Ref();
  }
  return tuple(text(schema.name()), text(schema.overload_name().empty() ? "default" : schema.overload_name()), positional, keywords,
               list(node.outputs, value_number), list(node.return_lengths, number), engine::mode_of(node.mode), number(node.source));
}

Ref type_of(const graph::Value& value) {
  if (!value.is_tensor()) {
    switch (std::get<graph::HostType>(value.type)) {
      case graph::HostType::kInt: return text("int");
      case graph::HostType::kFloat: return text("float");
      case graph::HostType::kBool: return text("bool");
    }
  }
  const graph::TensorType& type = value.tensor();
  return tuple(dtype_object(type.dtype), Ref::steal(THPDevice_New(type.device)), list(type.sizes, number), list(type.strides, number), truth(type.requires_grad), truth(type.number));
}

}  // namespace

Ref mode_of(const graph::Mode& mode) {
  const char* device = mode.autocast_device == c10::kCUDA ? "cuda" : "cpu";
  return tuple(truth(mode.grad_enabled), truth(mode.inference), mode.autocast ? tuple(text(device), dtype_object(mode.autocast_dtype)) : none());
}

Ref describe(const graph::Graph& graph) {
  Ref out = Ref::steal(PyDict_New());
  auto put = [&](const char* key, Ref part) {
    if (out && (!part || PyDict_SetItemString(out.get(), key, part.get()) < 0)) out = Ref();
  };
  put("values", list(graph.values, [](const graph::Value& value) { return tuple(text(value.name), type_of(value)); }));
  put("inputs", list(graph.inputs, [](const graph::Input& input) { return number(input.value); }));
  put("nodes", list(graph.nodes, node_of));
  put("outputs", list(graph.outputs, value_number));
  put("sources", list(graph.sources, [](const graph::Source& at) {
        return tuple(text(at.file), text(at.function), number(at.line), number(at.caller), text(at.module), text(at.class_name));
      }));
  return out;
}

}  // namespace dynrun::engine
