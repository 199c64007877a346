// The C++ side of the frame layout's check; compat_3_12.c is the other.

#include "python/compat.h"

#include <cstddef>

namespace dynrun::python {

#define DYNRUN_ASSERT_OFFSET(field, offset) static_assert(offsetof(Frame, field) == (offset));
DYNRUN_FRAME_LAYOUT(DYNRUN_ASSERT_OFFSET)
#undef DYNRUN_ASSERT_OFFSET

}  // namespace dynrun::python
