#include "aligned_dump_target.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  mainstem::fuzz::run_aligned_dump(std::as_bytes(std::span(data, size)));
  return 0;
}
