#include "lowering/gpu/libdevice.h"

// The bytes of the file that the build found, with nothing between them and the linker.
asm(R"(
  .pushsection .rodata
  .global dynrun_libdevice
  .hidden dynrun_libdevice
  .balign 16
dynrun_libdevice:
  .incbin ")" DYNRUN_LIBDEVICE R"("
  .global dynrun_libdevice_end
  .hidden dynrun_libdevice_end
dynrun_libdevice_end:
  .byte 0
  .popsection
)");

extern "C" {
extern const char dynrun_libdevice[];
extern const char dynrun_libdevice_end[];
}

namespace dynrun::lowering::gpu {

llvm::StringRef libdevice() { return {dynrun_libdevice, static_cast<std::size_t>(dynrun_libdevice_end - dynrun_libdevice)}; }

}  // namespace dynrun::lowering::gpu
