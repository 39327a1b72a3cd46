#include "dump_folder_target.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  mainstem::fuzz::run_dump_folder(std::as_bytes(std::span(data, size)));
  return 0;
}
