#include "trace/line_log.h"

#include "python/frame.h"
#include "python/text.h"

namespace dynrun::trace {

using python::Ref;

void LineLog::begin(PyCodeObject* code, int unit, bool told) {
  if (told) end();
  if (code_.get() != reinterpret_cast<PyObject*>(code)) code_ = Ref::borrow(reinterpret_cast<PyObject*>(code));
  unit_ = unit;
}

void LineLog::end() {
  if (!code_) return;
  auto* code = reinterpret_cast<PyCodeObject*>(code_.get());
  lines_.push_back({Ref::borrow(code->co_filename), Ref::borrow(code->co_qualname), python::shown_line(code, unit_)});
  code_ = Ref();
}

graph::SourceLine LineLog::at(std::int32_t number) const {
  if (number < 0 || static_cast<std::size_t>(number) >= lines_.size()) return {};
  const Line& line = lines_[static_cast<std::size_t>(number)];
  return {python::file_of(line.file.get()), python::text_of(line.function.get()), line.line};
}

}  // namespace dynrun::trace
