#include <algorithm>
#include <limits>
#include <numeric>
#include <tuple>
#include <utility>

#include "base/byte_reader.h"
#include "base/checked.h"
#include "io/mapped_file.h"
#include "io/safetensors_header.h"
#include "io/text.h"
#include "mainstem/safetensors.h"

namespace mainstem {
namespace {

// Bytes that dtype and shape ask for.
uint64_t expected_bytes(const SafetensorsEntry& entry) {
  uint64_t count = 1;
  for (const int64_t dim : entry.shape) {
    count = checked_mul(count, static_cast<uint64_t>(dim), "shape");
  }
  (void)element_count(entry.shape);  // the same, within 63 bits
  const auto bits = static_cast<uint64_t>(entry.type->bits);
  if (bits % 8 != 0) {
    const uint64_t row = entry.shape.empty() ? 1 : static_cast<uint64_t>(entry.shape.back());
    if (checked_mul(row, bits, "shape") % 8 != 0) {
      throw bad_input("shape",
                      "a last dimension that fills whole bytes at " + std::to_string(bits) +
                          " bits per element",
                      to_string(entry.shape));
    }
  }
  return checked_mul(count, bits, "shape") / 8;
}

void check_entry(const SafetensorsEntry& entry) {
  if (entry.begin > entry.end) {
    throw bad_input("data_offsets", "begin <= end",
                    std::to_string(entry.begin) + " > " + std::to_string(entry.end));
  }
  if (entry.type == nullptr) return;
  const uint64_t bytes = expected_bytes(entry);
  if (entry.end - entry.begin != bytes) {
    throw bad_input("data_offsets",
                    std::to_string(bytes) + " bytes for " + std::string(entry.type->name) + " " +
                        to_string(entry.shape),
                    std::to_string(entry.end - entry.begin));
  }
}

// The data must be covered once and fully: entries are sorted by their offsets.
void check_cover(const std::vector<SafetensorsEntry>& entries) {
  uint64_t at = 0;
  const SafetensorsEntry* before = nullptr;
  for (const SafetensorsEntry& entry : entries) {
    if (entry.begin != at) {
      const bool hole = entry.begin > at;
      const std::string after =
          before == nullptr ? " (the first)" : " (the end of " + quote(before->name) + ")";
      throw bad_input("data_offsets", "begin at " + std::to_string(at) + after,
                      std::to_string(entry.begin) + (hole ? ", a hole" : ", an overlap"))
          .in(quote(entry.name));
    }
    at = entry.end;
    before = &entry;
  }
}

void check_duplicates(const std::vector<StoredTensor>& tensors,
                      const std::vector<uint32_t>& by_name) {
  for (size_t i = 1; i < by_name.size(); ++i) {
    const std::string& name = tensors[by_name[i]].name;
    if (name == tensors[by_name[i - 1]].name) {
      throw bad_input("header", "each tensor once", quote(name) + " twice");
    }
  }
}

uint64_t read_header_length(ByteReader& reader, const SafetensorsOptions& options) {
  const auto length = reader.read<uint64_t>("header length");
  if (length > reader.remaining()) {
    throw bad_input("header length",
                    "at most the " + std::to_string(reader.remaining()) + " bytes that follow",
                    std::to_string(length))
        .hint("the file is truncated or not a safetensors file");
  }
  if (length > options.max_header_bytes) {
    throw bad_input("header length",
                    "at most " + std::to_string(options.max_header_bytes) + " bytes",
                    std::to_string(length))
        .hint("raise SafetensorsOptions::max_header_bytes for a file that is trusted");
  }
  return length;
}

}  // namespace

SafetensorsFile SafetensorsFile::open(const std::filesystem::path& path,
                                      const SafetensorsOptions& options) {
  const auto mapped = MappedFile::open(path);
  SafetensorsFile file = from_bytes(mapped->bytes(), mapped->path(), options);
  file.storage_ = mapped;
  return file;
}

SafetensorsFile SafetensorsFile::from_bytes(std::span<const std::byte> bytes, std::string name,
                                            const SafetensorsOptions& options) {
  SafetensorsFile file;
  file.path_ = std::make_shared<const std::string>(std::move(name));
  with_context(*file.path_, [&] { file.parse(bytes, options); });
  return file;
}

void SafetensorsFile::parse(std::span<const std::byte> bytes, const SafetensorsOptions& options) {
  refuse_placeholder(bytes, "a safetensors file");
  ByteReader reader(bytes);
  if (bytes.size() < 8) {
    throw bad_input("safetensors file", "at least 8 bytes", std::to_string(bytes.size()));
  }
  const uint64_t length = read_header_length(reader, options);
  const std::string_view text = reader.take_text(length, "header");
  if (!text.starts_with('{')) {
    throw bad_input("header", "a JSON object at byte 8", describe_content(bytes));
  }
  SafetensorsHeader header = with_context("header", [&] { return parse_safetensors_header(text); });
  auto& entries = header.entries;
  if (entries.size() > std::numeric_limits<uint32_t>::max()) {
    throw bad_input("header", "fewer than 2^32 tensors", std::to_string(entries.size()));
  }
  for (const SafetensorsEntry& entry : entries) {
    with_context(quote(entry.name), [&] { check_entry(entry); });
  }
  std::sort(entries.begin(), entries.end(), [](const auto& a, const auto& b) {
    return std::tie(a.begin, a.end, a.name) < std::tie(b.begin, b.end, b.name);
  });
  check_cover(entries);

  const uint64_t used = entries.empty() ? 0 : entries.back().end;
  const uint64_t present = reader.remaining();
  if (used > present) {
    throw bad_input(
        "file size",
        std::to_string(
            checked_add(checked_add<uint64_t>(8, length, "file size"), used, "file size")) +
            " bytes",
        std::to_string(bytes.size()) + ": " + std::to_string(used - present) + " bytes are missing")
        .hint("the file is truncated: fetch it again");
  }
  if (used < present) {
    const std::string surplus = std::to_string(present - used) + " more";
    if (!options.allow_trailing) {
      throw bad_input("data", std::to_string(used) + " bytes, fully covered by tensors", surplus);
    }
    warnings_.push_back("data: " + surplus + " bytes after the last tensor; in " + *path_);
  }

  const std::byte* data = bytes.data() + reader.offset();
  tensors_.reserve(entries.size());
  for (SafetensorsEntry& entry : entries) {
    StoredTensor& tensor = tensors_.emplace_back();
    tensor.name = std::move(entry.name);
    tensor.file = *path_;
    tensor.dtype_name = entry.dtype_name;
    if (entry.type != nullptr) tensor.dtype = entry.type->dtype;
    tensor.shape = std::move(entry.shape);
    tensor.data = data + entry.begin;
    tensor.bytes = entry.end - entry.begin;
  }
  by_name_.resize(tensors_.size());
  std::iota(by_name_.begin(), by_name_.end(), 0u);
  std::sort(by_name_.begin(), by_name_.end(),
            [&](uint32_t a, uint32_t b) { return tensors_[a].name < tensors_[b].name; });
  check_duplicates(tensors_, by_name_);
  metadata_ = std::move(header.metadata);
  type_names_ = std::move(header.unknown_types);
}

const StoredTensor* SafetensorsFile::find(std::string_view name) const {
  const auto at =
      std::lower_bound(by_name_.begin(), by_name_.end(), name,
                       [&](uint32_t i, std::string_view key) { return tensors_[i].name < key; });
  return at != by_name_.end() && tensors_[*at].name == name ? &tensors_[*at] : nullptr;
}

TensorView SafetensorsFile::view(std::string_view name) const {
  if (const StoredTensor* tensor = find(name)) return tensor->view();
  throw bad_input("tensor", "a tensor " + quote(name), "none of that name").in(*path_);
}

}  // namespace mainstem
