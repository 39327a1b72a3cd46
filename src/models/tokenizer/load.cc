#include <algorithm>
#include <filesystem>
#include <string>

#include "io/mapped_file.h"
#include "io/text.h"
#include "mainstem/error.h"
#include "mainstem/tokenizer.h"
#include "models/tokenizer/loaders.h"

namespace mainstem {
namespace {

namespace fs = std::filesystem;

constexpr const char* kWithoutOne = "commands that take --tokens work without one";

std::string_view text_of(const MappedFile& file) {
  const auto bytes = file.bytes();
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

/// The file's text, or nothing where there is no such file.
std::string read_side_file(const fs::path& path) {
  std::error_code error;
  if (!fs::exists(path, error)) return {};
  return std::string(text_of(*MappedFile::open(path)));
}

tokenizer::SideFiles read_side_files(const fs::path& folder) {
  return {.tokenizer_config = read_side_file(folder / "tokenizer_config.json"),
          .generation_config = read_side_file(folder / "generation_config.json"),
          .config = read_side_file(folder / "config.json")};
}

/// Opens the file and hands its text and what lies beside it to `read`.
template <typename Read>
Tokenizer load_with(const fs::path& path, const char* what, Read&& read) {
  const auto file = MappedFile::open(path);
  return with_context(file->path(), [&] {
    refuse_placeholder(file->bytes(), what);
    return Tokenizer(read(text_of(*file), read_side_files(path.parent_path())));
  });
}

Tokenizer load_file(const fs::path& path) {
  const fs::path name = path.filename();
  const fs::path ending = path.extension();
  if (ending == ".json") return load_with(path, "a tokenizer.json", tokenizer::from_tokenizer_json);
  if (ending == ".txt") return load_with(path, "a vocab.txt", tokenizer::from_vocab_txt);
  if (ending == ".spm") {
    const std::string vocabulary = read_side_file(path.parent_path() / "vocab.json");
    if (vocabulary.empty()) {
      throw bad_input("vocab.json", "the ids of the pieces, beside " + name.string(), "no file");
    }
    return load_with(path, "a SentencePiece model", [&](std::string_view bytes, const auto& side) {
      return tokenizer::from_marian(bytes, vocabulary, side);
    });
  }
  if (ending == ".model") {
    return load_with(path, "a SentencePiece model", tokenizer::from_sentencepiece);
  }
  const GgufFile file = GgufFile::open(path);
  if (!file.has("tokenizer.ggml.model")) {
    throw usage_error("tokenizer", "a file that holds one", "none")
        .in(file.path())
        .hint(kWithoutOne);
  }
  return Tokenizer::from_gguf(file);
}

}  // namespace

Tokenizer Tokenizer::load(const fs::path& folder_or_file) {
  std::error_code error;
  if (!fs::is_directory(folder_or_file, error)) return load_file(folder_or_file);
  for (const char* name :
       {"tokenizer.json", "tokenizer.model", "spiece.model", "source.spm", "vocab.txt"}) {
    if (fs::exists(folder_or_file / name, error)) return load_file(folder_or_file / name);
  }
  throw usage_error("tokenizer",
                    "a file tokenizer.json, tokenizer.model, spiece.model, source.spm or vocab.txt",
                    "none")
      .in(folder_or_file.string())
      .hint(kWithoutOne);
}

Tokenizer Tokenizer::from_gguf(const GgufFile& file) {
  return Tokenizer(tokenizer::from_gguf(file));
}

}  // namespace mainstem
