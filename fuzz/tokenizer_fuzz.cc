// Tokenizer files from anyone: a GGUF file, or the text of a tokenizer.json, a NUL byte and a text
// to encode with it. Nothing but mainstem::Error may come out, and what encodes must decode.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <span>
#include <string>
#include <string_view>

#include "mainstem/error.h"
#include "mainstem/gguf.h"
#include "mainstem/tokenizer.h"
#include "models/tokenizer/loaders.h"

namespace {

void use(const mainstem::Tokenizer& tokenizer, std::string_view text) {
  for (const bool parse_special : {true, false}) {
    const auto ids = tokenizer.encode(
        text, {.parse_special = parse_special, .missing_byte = mainstem::MissingByte::kDrop});
    const std::string whole = tokenizer.decode(ids);
    mainstem::StreamDecoder decoder(tokenizer);
    std::string joined;
    for (const int64_t id : ids) {
      joined += decoder.push(id);
      (void)tokenizer.piece(id);
    }
    joined += decoder.finish();
    if (joined != whole) std::abort();
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  try {
    if (input.starts_with("GGUF")) {
      const auto bytes = std::as_bytes(std::span(data, size));
      const auto file = mainstem::GgufFile::from_bytes(bytes, "fuzz.gguf");
      use(mainstem::Tokenizer::from_gguf(file), "a b  12'll <s>\xFF \xC3\xA9\n");
    } else {
      const size_t end = std::min(input.find('\0'), size);
      const auto pipeline = mainstem::tokenizer::from_tokenizer_json(input.substr(0, end), {});
      use(mainstem::Tokenizer(pipeline), input.substr(std::min(end + 1, size)));
    }
  } catch (const mainstem::Error&) {
    // What a broken file deserves.
  }
  return 0;
}
