#include "engine/open_sizes.h"

#include <algorithm>

namespace dynrun::engine {

using python::Ref;

namespace {

Ref none() { return Ref::borrow(Py_None); }

Ref dimensions(std::uint64_t open) {
  Ref list = Ref::steal(PyList_New(0));
  for (long at = 0; list && open >> at != 0; at++) {
    if ((open >> at & 1) == 0) continue;
    const Ref number = Ref::steal(PyLong_FromLong(at));
    if (!number || PyList_Append(list.get(), number.get()) < 0) return Ref();
  }
  return list ? Ref::steal(PyList_AsTuple(list.get())) : Ref();
}

/// How one number is computed.
class Form {
 public:
  explicit Form(const trace::Segment& segment) : segment_(segment) {}

  Ref number(trace::HostId id) {
    if (++steps_ > kMostSteps) return none();
    const trace::HostStep& step = segment_.host.steps()[static_cast<std::size_t>(id)];
    switch (step.kind) {
      case trace::HostKind::kSize: return size(step);
      case trace::HostKind::kConstant: return Ref::steal(Py_BuildValue("(sO)", "constant", step.object.get()));
      case trace::HostKind::kBinary: {
        const Ref a = number(step.operands[0]), b = a ? number(step.operands[1]) : Ref();
        if (!b || a.get() == Py_None || b.get() == Py_None) return b ? none() : Ref();
        return Ref::steal(Py_BuildValue("(siOO)", "binary", static_cast<int>(step.index), a.get(), b.get()));
      }
      case trace::HostKind::kNegative: {
        const Ref of = number(step.operands[0]);
        return !of || of.get() == Py_None ? of : Ref::steal(Py_BuildValue("(sO)", "negative", of.get()));
      }
      default: return none();
    }
  }

 private:
  Ref size(const trace::HostStep& step) const {
    const auto& sources = segment_.input_sources;
    const auto input = std::find(sources.begin(), sources.end(), step.index);
    return input == sources.end() ? none() : Ref::steal(Py_BuildValue("(sni)", "size", static_cast<Py_ssize_t>(input - sources.begin()), static_cast<int>(step.dimension)));
  }

  static constexpr int kMostSteps = 64;  // a number may be made of one number many times over
  const trace::Segment& segment_;
  int steps_ = 0;
};

}  // namespace

Ref open_sizes(const trace::Segment& segment) {
  Ref list = Ref::steal(PyList_New(0));
  for (std::size_t i = 0; list && i < segment.graph->inputs.size(); i++) {
    const auto host = segment.host_inputs.find(static_cast<int>(i));
    const guards::SourceId source = segment.input_sources[i];
    const Ref item = host != segment.host_inputs.end() ? Form(segment).number(host->second) : dimensions(source == guards::kNoSource ? 0 : segment.guards.open_of(source));
    if (!item || PyList_Append(list.get(), item.get()) < 0) return Ref();
  }
  return list;
}

}  // namespace dynrun::engine
