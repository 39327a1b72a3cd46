#include "name_map_target.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  mainstem::fuzz::run_name_map(std::as_bytes(std::span(data, size)));
  return 0;
}
