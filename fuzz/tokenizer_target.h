#pragma once

// What the fuzz targets do with their input: a GGUF file, or the text of a tokenizer.json, a NUL
// byte and a text to encode with it; a SentencePiece model; a vocab.txt, a NUL byte and a text.
// Nothing but an Error of kind bad input may come out, and what encodes must decode.
// tests/models/tokenizer_corpus_test.cc runs the kept corpora through them.

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <span>
#include <string>
#include <string_view>

#include "mainstem/error.h"
#include "mainstem/gguf.h"
#include "mainstem/tokenizer.h"
#include "models/tokenizer/loaders.h"

namespace mainstem::fuzz {

inline void use_tokenizer(const Tokenizer& tokenizer, std::string_view text) {
  for (const bool parse_special : {true, false}) {
    const auto ids = tokenizer.encode(
        text, {.parse_special = parse_special, .missing_byte = MissingByte::kDrop});
    const std::string whole = tokenizer.decode(ids);
    StreamDecoder decoder(tokenizer);
    std::string joined;
    for (const int64_t id : ids) {
      joined += decoder.push(id);
      (void)tokenizer.piece(id);
    }
    joined += decoder.finish();
    if (joined != whole) std::abort();
  }
}

inline void run_tokenizer(std::span<const std::byte> bytes) {
  const std::string_view input(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  try {
    if (input.starts_with("GGUF")) {
      const auto file = GgufFile::from_bytes(bytes, "input.gguf");
      use_tokenizer(Tokenizer::from_gguf(file), "a b  12'll <s>\xFF \xC3\xA9\n");
    } else {
      const size_t end = std::min(input.find('\0'), input.size());
      const Tokenizer tokenizer(tokenizer::from_tokenizer_json(input.substr(0, end), {}));
      use_tokenizer(tokenizer, input.substr(std::min(end + 1, input.size())));
    }
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kBadInput) std::abort();
  }
}

/// The model alone, and with a vocab.json as Marian has it.
inline void run_sentencepiece(std::span<const std::byte> bytes) {
  const std::string_view input(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  constexpr std::string_view kText = "the sea  12 [X]\n<s> \xFF \xC3\xA9\xE2\x96\x81";
  const auto answer = [&](auto&& load) {
    try {
      use_tokenizer(Tokenizer(load()), kText);
    } catch (const Error& error) {
      if (error.code() != ErrorCode::kBadInput) std::abort();
    }
  };
  answer([&] { return tokenizer::from_sentencepiece(input, {}); });
  answer([&] {
    return tokenizer::from_marian(input, R"({"<unk>": 0, "</s>": 1, "a": 2, "\u2581the": 4})", {});
  });
}

inline void run_vocab_txt(std::span<const std::byte> bytes) {
  const std::string_view input(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  const size_t end = std::min(input.find('\0'), input.size());
  try {
    const Tokenizer tokenizer(tokenizer::from_vocab_txt(input.substr(0, end), {}));
    use_tokenizer(tokenizer, input.substr(std::min(end + 1, input.size())));
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kBadInput) std::abort();
  }
}

}  // namespace mainstem::fuzz
