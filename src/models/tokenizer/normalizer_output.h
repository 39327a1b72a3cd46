#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "mainstem/error.h"

namespace mainstem::tokenizer {

/// What a step of a normalizer writes, held to a multiple of what it reads: rules come from files.
class NormalizerOutput {
 public:
  explicit NormalizerOutput(std::string_view input) : most_(input.size() * 64 + 65536) {
    text_.reserve(input.size());
  }
  void append(std::string_view part) {
    if (part.size() > most_ - text_.size()) {
      throw bad_input("normalizer", "rules that make a text at most 64 times as long",
                      "more than " + std::to_string(most_) + " bytes");
    }
    text_ += part;
  }
  void append(char byte) { append(std::string_view(&byte, 1)); }
  const std::string& text() const { return text_; }
  void cut(size_t size) { text_.resize(size); }
  std::string take() { return std::move(text_); }

 private:
  std::string text_;
  size_t most_;
};

}  // namespace mainstem::tokenizer
