#pragma once

// The tiny models of tests/golden for fuzz targets, and bytes taken one after another.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "mainstem/model.h"
#include "mainstem/session.h"

namespace mainstem::fuzz {

/// Bytes one after another; zeros behind the last.
class ByteStream {
 public:
  explicit ByteStream(std::span<const std::byte> bytes) : bytes_(bytes) {}
  bool empty() const { return bytes_.empty(); }
  uint8_t byte() {
    if (bytes_.empty()) return 0;
    const auto value = std::to_integer<uint8_t>(bytes_.front());
    bytes_ = bytes_.subspan(1);
    return value;
  }
  size_t below(size_t limit) { return byte() % limit; }
  /// A length in one byte, and so many characters.
  std::string text() {
    const size_t length = std::min<size_t>(byte(), bytes_.size());
    std::string value(reinterpret_cast<const char*>(bytes_.data()), length);
    bytes_ = bytes_.subspan(length);
    return value;
  }

 private:
  std::span<const std::byte> bytes_;
};

/// A tiny model and what it makes of some tokens.
struct FuzzModel {
  explicit FuzzModel(const std::string& family)
      : model(
            Model::load(std::filesystem::path(MAINSTEM_TEST_DATA) / "golden" / "families" / family,
                        {.allow_unknown_keys = {}, .skip_tokenizer = true})) {}

  std::vector<SequenceInput> inputs(int64_t batch, int64_t tokens) const {
    std::vector<SequenceInput> result(static_cast<size_t>(batch));
    const int64_t vocab = model.spec().vocab_size;
    for (int64_t b = 0; b < batch; ++b) {
      auto& input = result[static_cast<size_t>(b)];
      for (int64_t t = 0; t < tokens; ++t) input.tokens.push_back((t * 7 + b * 5 + 3) % vocab);
      if (!model.spec().encoder) continue;
      for (int64_t t = 0; t < tokens + 1; ++t) {
        input.encoder_tokens.push_back((t * 5 + b * 3 + 1) % vocab);
      }
    }
    return result;
  }
  const std::vector<TracedValue>& values(int64_t batch, int64_t tokens) {
    auto& kept = traced_[{batch, tokens}];
    if (kept.empty()) {
      kept =
          trace(model.bound(), inputs(batch, tokens), all_sites(model.program()), Compute::kF64, 1);
    }
    return kept;
  }

  Model model;

 private:
  std::map<std::pair<int64_t, int64_t>, std::vector<TracedValue>> traced_;
};

/// One for each kind of block; new ones go to the end, so that kept inputs mean the same.
inline FuzzModel& fuzz_model(size_t number) {
  static const std::vector<std::string> families = {
      "llama",    "gpt2",       "bert",   "marian",           "gemma2", "falcon_rw",
      "gpt_neox", "phi3",       "cohere", "opt_post",         "qwen3",  "gptj",
      "gemma3",   "falcon_40b", "olmo2",  "stablelm_parallel"};
  static std::map<size_t, FuzzModel> loaded;
  number %= families.size();
  return loaded.try_emplace(number, families[number]).first->second;
}

}  // namespace mainstem::fuzz
