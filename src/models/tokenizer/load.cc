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

Tokenizer load_tokenizer_json(const fs::path& path) {
  const auto file = MappedFile::open(path);
  return with_context(file->path(), [&] {
    refuse_placeholder(file->bytes(), "a tokenizer.json");
    const fs::path folder = path.parent_path();
    const tokenizer::SideFiles side = {
        .tokenizer_config = read_side_file(folder / "tokenizer_config.json"),
        .generation_config = read_side_file(folder / "generation_config.json"),
        .config = read_side_file(folder / "config.json")};
    return Tokenizer(tokenizer::from_tokenizer_json(text_of(*file), side));
  });
}

}  // namespace

Tokenizer Tokenizer::load(const fs::path& folder_or_file) {
  std::error_code error;
  if (fs::is_directory(folder_or_file, error)) {
    const fs::path json = folder_or_file / "tokenizer.json";
    if (fs::exists(json, error)) return load_tokenizer_json(json);
    throw bad_input("tokenizer", "a file tokenizer.json", "none")
        .in(folder_or_file.string())
        .hint("name the .gguf file itself if the model is one");
  }
  if (folder_or_file.extension() == ".json") return load_tokenizer_json(folder_or_file);
  return from_gguf(GgufFile::open(folder_or_file));
}

Tokenizer Tokenizer::from_gguf(const GgufFile& file) {
  return Tokenizer(tokenizer::from_gguf(file));
}

}  // namespace mainstem
