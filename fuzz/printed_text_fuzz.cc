#include "fuzz_targets.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  mainstem::fuzz::run_printed_text(std::as_bytes(std::span(data, size)));
  return 0;
}
