#pragma once

// What the fuzz target does with its input: the words of a GGUF file, or a config.json, become a
// spec and a program; no weights. Nothing but an Error of kind bad input may come out, and what a
// reader lets through must build. tests/models/model_words_corpus_test.cc runs the kept corpus
// through it.

#include <cstddef>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <span>
#include <string_view>

#include "io/json.h"
#include "mainstem/error.h"
#include "mainstem/gguf.h"
#include "mainstem/program.h"
#include "models/loaded_files.h"

namespace mainstem::fuzz {

template <typename Read>
void use_spec(Read&& read) {
  ModelSpec spec;
  try {
    spec = read();
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kBadInput) std::abort();
    return;
  }
  // A thousand blocks say no more than a few, and take long.
  constexpr size_t kEnough = 8;
  if (spec.stack.blocks.size() > kEnough) spec.stack.blocks.resize(kEnough);
  if (spec.encoder && spec.encoder->blocks.size() > kEnough) spec.encoder->blocks.resize(kEnough);
  if (build_program(spec).steps.empty()) std::abort();
}

inline void run_model_words(std::span<const std::byte> bytes) {
  const std::string_view input(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  try {
    if (input.starts_with("GGUF")) {
      const auto file = GgufFile::from_bytes(bytes, "input.gguf");
      const Family& family = family_of(file);
      GgufWords words(file, [&](std::string_view name) { return file.find(name); });
      use_spec([&] { return read_spec(family, words); });
      return;
    }
    const nlohmann::json config = parse_json(input);
    if (!config.is_object()) return;
    const Family& family = family_of(config, "config.json");
    for (const bool has_tensors : {false, true}) {
      ConfigReader reader(config, "config.json");
      use_spec(
          [&] { return read_spec(family, reader, [&](std::string_view) { return has_tensors; }); });
    }
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kBadInput) std::abort();
  }
}

}  // namespace mainstem::fuzz
