#include "model_words_target.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  mainstem::fuzz::run_model_words(std::as_bytes(std::span(data, size)));
  return 0;
}
