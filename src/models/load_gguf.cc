#include <algorithm>

#include "mainstem/error.h"
#include "models/gguf_parts.h"
#include "models/loaded_files.h"

namespace mainstem {

const Family& family_of(const GgufFile& file) {
  const std::string_view arch = file.need_string("general.architecture");
  for (const Family& family : families()) {
    const auto& archs = family.gguf_archs;
    if (std::find(archs.begin(), archs.end(), arch) != archs.end()) return family;
  }
  throw bad_input("general.architecture", "one of " + list_families(true), std::string(arch))
      .in(file.path());
}

ModelSpec read_spec(const Family& family, GgufWords& words) {
  return with_context(words.path(), [&] {
    ModelSpec spec = family.read_gguf(words);
    words.finish();
    validate(spec);
    return spec;
  });
}

LoadedFiles load_gguf(const std::filesystem::path& path) {
  const auto parts = std::make_shared<GgufParts>(GgufParts::open(path));
  const GgufFile& first = parts->first();
  const std::string file = path.string();
  LoadedFiles loaded;
  loaded.words = first.path();
  const Family& family = family_of(first);
  loaded.family = &family;
  GgufWords words(first, [&](std::string_view name) { return parts->find(name).first; });
  loaded.program = build_program(read_spec(family, words));
  std::set<std::string> used = words.taken();
  const auto find = [&](const std::string& name) -> FoundTensor {
    const auto [tensor, part] = parts->find(name);
    return {tensor, tensor == nullptr ? nullptr : part->storage()};
  };
  loaded.sources = find_weights(loaded.program, family, true, find, file, used);
  loaded.ignored = unused_tensors(parts->tensors(), used, family, file);
  for (const auto& part : parts->files()) loaded.files.emplace_back(part->path());
  loaded.notes = parts->warnings();
  if (const auto eos = first.get_int("tokenizer.ggml.eos_token_id"))
    loaded.generation.end_ids = {*eos};
  loaded.has_tokenizer = first.has("tokenizer.ggml.model");
  return loaded;
}

}  // namespace mainstem
