// Where a graph break was met, for reports: the line, the place in it, and who called.

#include "python/text.h"
#include "trace/recorder.h"
#include "trace/torch_breaks.h"

#include <frameobject.h>

namespace dynrun::trace {

using python::Ref;

namespace {

/// The instruction that a break at `pc` is of: what gave a name its value, where it is met when the name is bound.
std::size_t cause_of(const bytecode::Code& code, std::int32_t pc) {
  using bytecode::Opcode;
  const auto at = static_cast<std::size_t>(pc);
  if (at == 0 || at >= code.instructions.size()) return at;
  const Opcode opcode = code.instructions[at].opcode;
  const bool binds = opcode == Opcode::kStoreFast || opcode == Opcode::kStoreName || opcode == Opcode::kStoreGlobal || opcode == Opcode::kStoreDeref || opcode == Opcode::kPopTop;
  return binds ? at - 1 : at;
}

}  // namespace

void Recorder::note_break(BreakId id, std::string detail) {
  if (break_) return;
  vm::Activation* top = vm::current_machine()->top;
  break_ = Break{};
  break_->id = id;
  break_->detail = std::move(detail);
  if (top == nullptr) return;
  break_->in_torch = breaks_in_torch(id, break_->detail, *top->code, top->pc);
  const std::size_t at = cause_of(*top->code, top->pc);
  break_->line = line_at(*top->code, static_cast<std::int32_t>(at));
  int line, column, end_line, end_column;
  const int offset = at < top->code->instructions.size() ? top->code->instructions[at].offset : 0;
  if (PyCode_Addr2Location(top->code->object, offset * static_cast<int>(sizeof(std::uint16_t)), &line, &column, &end_line, &end_column) && line == end_line) {
    break_->column = column;
    break_->end_column = end_column;
  }
  constexpr std::size_t kMaxCallers = 32;  // a model of transformers is 20 deep
  bool recorded = top->frame != base_frame_;
  for (const python::Frame* frame = top->frame->previous; frame && break_->callers.size() < kMaxCallers; frame = frame->previous) {
    if (frame->owner == python::kOwnedByCStack) continue;
    break_->callers.push_back({python::file_of(frame->code->co_filename), python::text_of(frame->code->co_qualname), python::line_of(frame)});
    if (recorded) break_->recorded_callers++;
    recorded = recorded && frame != base_frame_;
  }
}

/// A break because of an exception, which may be on its way out already or have arrived at its handler: it is told of where it was raised.
void Recorder::note_raise(PyObject* exception) {
  if (break_) return;
  note_break(BreakId::k_raise, exception ? Py_TYPE(exception)->tp_name : "");
  const Ref traceback = exception ? Ref::steal(PyException_GetTraceback(exception)) : Ref();
  std::vector<graph::SourceLine> raised_in;  // from the handler's frame inwards
  for (auto* entry = reinterpret_cast<PyTracebackObject*>(traceback.get()); entry; entry = entry->tb_next) {
    const Ref code = Ref::steal(reinterpret_cast<PyObject*>(PyFrame_GetCode(entry->tb_frame)));
    auto* object = reinterpret_cast<PyCodeObject*>(code.get());
    raised_in.push_back({python::file_of(object->co_filename), python::text_of(object->co_qualname), PyCode_Addr2Line(object, entry->tb_lasti)});
  }
  if (raised_in.empty()) return;
  break_->line = raised_in.back();
  break_->column = break_->end_column = -1;
  raised_in.pop_back();
  break_->callers.insert(break_->callers.begin(), raised_in.rbegin(), raised_in.rend());
  break_->recorded_callers += raised_in.size();
}

}  // namespace dynrun::trace
