#include "models/gguf_parts.h"

#include <fmt/format.h>

#include "mainstem/error.h"

namespace mainstem {
namespace fs = std::filesystem;

namespace {

constexpr int64_t kMostParts = 10000;

std::shared_ptr<const GgufFile> open_file(const fs::path& path) {
  return std::make_shared<const GgufFile>(GgufFile::open(path));
}

std::string part_text(int64_t number, int64_t count) {
  return fmt::format("part {} of {}", number + 1, count);
}

/// "NAME" of "NAME-00002-of-00003.gguf".
std::string stem_of(const fs::path& path, int64_t number, int64_t count) {
  const std::string name = path.filename().string();
  const std::string ending = fmt::format("-{:05}-of-{:05}.gguf", number + 1, count);
  if (!name.ends_with(ending)) {
    throw bad_input("name of a part", "one that ends in " + ending, name).in(path.string());
  }
  return name.substr(0, name.size() - ending.size());
}

void check_part(const GgufFile& part, int64_t number, int64_t count) {
  const auto check = [&](std::string_view key, int64_t wanted) {
    const auto found = part.get_int(key);
    if (found == wanted) return;
    throw bad_input(std::string(key), std::to_string(wanted),
                    found ? std::to_string(*found) : "none")
        .in(part_text(number, count) + ", " + part.path());
  };
  check("split.no", number);
  check("split.count", count);
}

std::shared_ptr<const GgufFile> open_part(const fs::path& path, int64_t number, int64_t count) {
  std::error_code error;
  if (!fs::exists(path, error)) {
    throw bad_input(part_text(number, count), "a file beside the other parts", "no such file")
        .in(path.string());
  }
  return open_file(path);
}

}  // namespace

GgufParts GgufParts::open(const fs::path& path) {
  GgufParts parts;
  auto given = open_file(path);
  const int64_t count = given->get_int("split.count").value_or(1);
  if (count == 0 || count == 1) {  // some writers say so of a whole file
    parts.files_.push_back(std::move(given));
    return parts;
  }
  const int64_t given_number = given->need_int("split.no");
  if (count < 1 || count > kMostParts) {
    throw bad_input("split.count", fmt::format("1 to {} parts", kMostParts), std::to_string(count))
        .in(path.string());
  }
  if (given_number < 0 || given_number >= count) {
    throw bad_input("split.no", fmt::format("0 to {}", count - 1), std::to_string(given_number))
        .in(path.string());
  }
  const std::string stem = stem_of(path, given_number, count);
  int64_t tensors = 0;
  for (int64_t number = 0; number < count; ++number) {
    const fs::path name = fmt::format("{}-{:05}-of-{:05}.gguf", stem, number + 1, count);
    auto part =
        number == given_number ? given : open_part(path.parent_path() / name, number, count);
    check_part(*part, number, count);
    tensors += static_cast<int64_t>(part->tensors().size());
    for (const StoredTensor& tensor : part->tensors()) {
      const auto other = parts.find(tensor.name).second;
      if (other == nullptr) continue;
      throw bad_input("tensor " + tensor.name, "in one part alone", "also in " + other->path())
          .in(part_text(number, count) + ", " + part->path());
    }
    parts.files_.push_back(std::move(part));
  }
  const auto wanted = parts.first().get_int("split.tensors.count");
  if (wanted && *wanted != tensors) {
    throw bad_input("tensors in all parts", std::to_string(*wanted), std::to_string(tensors))
        .in(parts.first().path());
  }
  return parts;
}

std::pair<const StoredTensor*, std::shared_ptr<const GgufFile>> GgufParts::find(
    std::string_view name) const {
  for (const auto& file : files_) {
    if (const StoredTensor* tensor = file->find(name)) return {tensor, file};
  }
  return {nullptr, nullptr};
}

std::vector<const StoredTensor*> GgufParts::tensors() const {
  std::vector<const StoredTensor*> all;
  for (const auto& file : files_) {
    for (const StoredTensor& tensor : file->tensors()) all.push_back(&tensor);
  }
  return all;
}

std::vector<std::string> GgufParts::warnings() const {
  std::vector<std::string> all;
  for (const auto& file : files_) {
    all.insert(all.end(), file->warnings().begin(), file->warnings().end());
  }
  return all;
}

}  // namespace mainstem
