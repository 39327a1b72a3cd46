#include <algorithm>
#include <bit>
#include <limits>
#include <numeric>
#include <utility>

#include "base/byte_reader.h"
#include "base/checked.h"
#include "io/gguf_types.h"
#include "io/mapped_file.h"
#include "io/text.h"
#include "mainstem/gguf.h"

namespace mainstem {
namespace {

constexpr uint64_t kMaxKeyBytes = 65535;  // the specification
constexpr uint64_t kMaxNameBytes = 64;    // the specification
constexpr uint32_t kMaxDims = 4;
constexpr uint32_t kMinAlignment = 8;
constexpr uint32_t kMaxAlignment = 1u << 20;
// The smallest record of each kind: a key of one letter with a one-byte value; a tensor without
// dimensions whose name is one letter.
constexpr uint64_t kMinEntryBytes = 8 + 1 + 4 + 1;
constexpr uint64_t kMinTensorBytes = 8 + 1 + 4 + 4 + 8;

struct Header {
  uint32_t version;
  uint64_t tensor_count, entry_count;
};

// A tensor info as stored; the dimensions are still in ggml's order.
struct TensorInfo {
  std::string_view name;
  uint32_t dim_count = 0;
  uint64_t dims[kMaxDims] = {};
  const GgmlType* type = nullptr;
  uint64_t offset = 0;
};

Header read_header(ByteReader& reader) {
  const std::string_view magic = reader.take_text(4, "magic");
  if (magic != "GGUF") throw bad_input("magic", "\"GGUF\"", quote(magic));
  const auto version = reader.read<uint32_t>("version");
  if ((version & 0xFFFFu) == 0) {
    throw bad_input("byte order", "a little-endian file",
                    "version " + std::to_string(version) + ", as a big-endian file has it")
        .hint("convert the model for little-endian machines");
  }
  if (version != 2 && version != 3) {
    throw bad_input("version", "2 or 3", std::to_string(version));
  }
  const auto tensor_count = reader.read<uint64_t>("tensor count");
  const auto entry_count = reader.read<uint64_t>("metadata count");
  reader.expect_records(entry_count, kMinEntryBytes, "metadata count");
  reader.expect_records(tensor_count, kMinTensorBytes, "tensor count");
  constexpr uint64_t kMost = std::numeric_limits<uint32_t>::max();
  if (tensor_count > kMost || entry_count > kMost) {
    throw bad_input("counts", "fewer than 2^32",
                    std::to_string(std::max(tensor_count, entry_count)));
  }
  return {version, tensor_count, entry_count};
}

std::string_view read_key(ByteReader& reader) {
  const auto length = reader.read<uint64_t>("key length");
  if (length == 0 || length > kMaxKeyBytes) {
    throw bad_input("key length", "1 to 65535", std::to_string(length));
  }
  const std::string_view key = reader.take_text(length, "key");
  const bool printable =
      std::all_of(key.begin(), key.end(), [](char c) { return c > 0x20 && c < 0x7F; });
  if (!printable) throw bad_input("key", "printable ASCII", quote(key));
  return key;
}

GgufType read_type(ByteReader& reader, const char* what) {
  const auto number = reader.read<uint32_t>(what);
  if (number > static_cast<uint32_t>(GgufType::kF64)) {
    throw bad_input(what, "a number from 0 to 12", std::to_string(number));
  }
  return static_cast<GgufType>(number);
}

// Walks the values of one element type and returns their bytes.
std::span<const std::byte> read_values(ByteReader& reader, GgufType type, uint64_t count) {
  if (type != GgufType::kString) {
    const uint64_t bytes = checked_mul<uint64_t>(count, value_bytes(type), "value bytes");
    const auto values = reader.take(bytes, "values");
    if (type == GgufType::kBool) {
      for (const std::byte value : values) {
        if (value > std::byte{1}) {
          throw bad_input("bool", "0 or 1", std::to_string(std::to_integer<int>(value)));
        }
      }
    }
    return values;
  }
  reader.expect_records(count, 8, "array length");
  ByteReader start = reader;
  for (uint64_t i = 0; i < count; ++i) {
    reader.take(reader.read<uint64_t>("string length"), "string");
  }
  return start.take(reader.offset() - start.offset(), "strings");
}

GgufEntry read_entry(ByteReader& reader) {
  GgufEntry entry;
  entry.key = read_key(reader);
  return with_context(quote(entry.key), [&] {
    entry.type = entry.element_type = read_type(reader, "value type");
    if (entry.type == GgufType::kArray) {
      entry.element_type = read_type(reader, "array element type");
      if (entry.element_type == GgufType::kArray) {
        throw bad_input("array element type", "a plain type", "array: nested arrays are refused");
      }
      entry.count = reader.read<uint64_t>("array length");
      const uint64_t least = std::max<uint64_t>(value_bytes(entry.element_type), 1);
      reader.expect_records(entry.count, least, "array length");
    }
    entry.bytes = read_values(reader, entry.element_type, entry.count);
    return entry;
  });
}

TensorInfo read_tensor_info(ByteReader& reader) {
  TensorInfo info;
  const auto length = reader.read<uint64_t>("tensor name length");
  if (length == 0 || length > kMaxNameBytes) {
    throw bad_input("tensor name length", "1 to 64", std::to_string(length));
  }
  info.name = reader.take_text(length, "tensor name");
  return with_context(quote(info.name), [&] {
    info.dim_count = reader.read<uint32_t>("dimension count");
    if (info.dim_count > kMaxDims) {
      throw bad_input("dimension count", "at most 4", std::to_string(info.dim_count));
    }
    for (uint32_t i = 0; i < info.dim_count; ++i) {
      info.dims[i] = reader.read<uint64_t>("dimension");
      if (info.dims[i] > uint64_t{std::numeric_limits<int64_t>::max()}) {
        throw bad_input("dimension", "less than 2^63", std::to_string(info.dims[i]));
      }
    }
    const auto type = reader.read<uint32_t>("tensor type");
    info.type = find_ggml_type(type);
    if (info.type == nullptr) {
      throw bad_input("tensor type", "a type of ggml's table (0 to 41 without the dead ones)",
                      std::to_string(type));
    }
    info.offset = reader.read<uint64_t>("tensor offset");
    return info;
  });
}

uint64_t tensor_bytes(const TensorInfo& info) {
  const GgmlType& type = *info.type;
  const uint64_t row = info.dim_count == 0 ? 1 : info.dims[0];
  if (row % type.block_elements != 0) {
    throw bad_input("row length",
                    "a multiple of " + std::to_string(type.block_elements) + ", the block of " +
                        std::string(type.name),
                    std::to_string(row));
  }
  uint64_t elements = 1;
  for (uint32_t i = 0; i < info.dim_count; ++i) {
    elements = checked_mul(elements, info.dims[i], "tensor elements");
  }
  return checked_mul<uint64_t>(elements / type.block_elements, type.block_bytes, "tensor bytes");
}

uint64_t pad(uint64_t bytes, uint64_t alignment) {
  return checked_add(bytes, alignment - 1, "padded size") & ~(alignment - 1);
}

// Tensors lie one after the other, each padded to the alignment. Returns the end of the last.
uint64_t check_packing(const std::vector<StoredTensor>& tensors,
                       const std::vector<uint64_t>& offsets, uint64_t alignment) {
  std::vector<uint32_t> order(tensors.size());
  std::iota(order.begin(), order.end(), 0u);
  std::sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) {
    return std::pair(offsets[a], tensors[a].bytes) < std::pair(offsets[b], tensors[b].bytes);
  });
  uint64_t at = 0, end = 0;
  const StoredTensor* before = nullptr;
  for (const uint32_t i : order) {
    const StoredTensor& tensor = tensors[i];
    if (offsets[i] != at) {
      const std::string after =
          before == nullptr ? " (the first)" : " (after " + quote(before->name) + ")";
      throw bad_input("tensor offset", std::to_string(at) + after,
                      std::to_string(offsets[i]) + (offsets[i] > at ? ", a hole" : ", an overlap"))
          .in(quote(tensor.name));
    }
    end = checked_add(offsets[i], tensor.bytes, "tensor end");
    at = pad(end, alignment);
    before = &tensor;
  }
  return end;
}

template <typename Items, typename Key>
std::vector<uint32_t> sorted_index(const Items& items, const char* what, Key key) {
  std::vector<uint32_t> index(items.size());
  std::iota(index.begin(), index.end(), 0u);
  std::sort(index.begin(), index.end(),
            [&](uint32_t a, uint32_t b) { return key(items[a]) < key(items[b]); });
  for (size_t i = 1; i < index.size(); ++i) {
    if (key(items[index[i]]) == key(items[index[i - 1]])) {
      throw bad_input(what, "each once", quote(key(items[index[i]])) + " twice");
    }
  }
  return index;
}

std::string_view key_of(const GgufEntry& entry) { return entry.key; }
std::string_view name_of(const StoredTensor& tensor) { return tensor.name; }

uint32_t read_alignment(const GgufEntry* entry) {
  if (entry == nullptr) return 32;
  return with_context(quote(entry->key), [&] {
    if (entry->type != GgufType::kU32) {
      throw bad_input("value type", "u32", std::string(name(entry->type)));
    }
    const auto value = ByteReader(entry->bytes).read<uint32_t>("alignment");
    if (!std::has_single_bit(value) || value < kMinAlignment || value > kMaxAlignment) {
      throw bad_input("alignment", "a power of two from 8 to 1048576", std::to_string(value));
    }
    return value;
  });
}

}  // namespace

GgufFile GgufFile::open(const std::filesystem::path& path, const GgufOptions& options) {
  const auto mapped = MappedFile::open(path);
  GgufFile file = from_bytes(mapped->bytes(), mapped->path(), options);
  file.storage_ = mapped;
  return file;
}

GgufFile GgufFile::from_bytes(std::span<const std::byte> bytes, std::string name,
                              const GgufOptions& options) {
  GgufFile file;
  file.path_ = std::make_shared<const std::string>(std::move(name));
  with_context(*file.path_, [&] { file.parse(bytes, options); });
  return file;
}

void GgufFile::parse(std::span<const std::byte> bytes, const GgufOptions& options) {
  refuse_placeholder(bytes, "a GGUF file");
  ByteReader reader(bytes);
  const Header header = read_header(reader);
  version_ = header.version;

  // Each list is walked once before memory is reserved for it, so that a count is believed only
  // when its records are really there.
  ByteReader start = reader;
  for (uint64_t i = 0; i < header.entry_count; ++i) read_entry(reader);
  entries_.reserve(header.entry_count);
  for (uint64_t i = 0; i < header.entry_count; ++i) entries_.push_back(read_entry(start));
  entries_by_key_ = sorted_index(entries_, "metadata keys", key_of);
  alignment_ = read_alignment(entry("general.alignment"));

  start = reader;
  for (uint64_t i = 0; i < header.tensor_count; ++i) read_tensor_info(reader);
  tensors_.reserve(header.tensor_count);
  std::vector<uint64_t> offsets;
  offsets.reserve(header.tensor_count);
  for (uint64_t i = 0; i < header.tensor_count; ++i) {
    const TensorInfo info = read_tensor_info(start);
    StoredTensor& tensor = tensors_.emplace_back();
    tensor.name = info.name;
    tensor.file = *path_;
    with_context(quote(info.name), [&] {
      if (info.offset % alignment_ != 0) {
        throw bad_input("tensor offset", "a multiple of " + std::to_string(alignment_),
                        std::to_string(info.offset));
      }
      tensor.shape.resize(info.dim_count);
      std::reverse_copy(info.dims, info.dims + info.dim_count, tensor.shape.begin());
      (void)element_count(tensor.shape);
      tensor.bytes = tensor_bytes(info);
    });
    tensor.dtype_name = info.type->name;
    tensor.dtype = info.type->dtype;
    offsets.push_back(info.offset);
  }
  tensors_by_name_ = sorted_index(tensors_, "tensor names", name_of);

  const uint64_t used = check_packing(tensors_, offsets, alignment_);
  const uint64_t data_start = pad(reader.offset(), alignment_);
  // Nothing needs to follow the header where there are no values, not even its padding.
  const uint64_t end = used == 0 ? reader.offset() : checked_add(data_start, used, "file size");
  if (end > bytes.size()) {
    throw bad_input("file size", std::to_string(end) + " bytes",
                    std::to_string(bytes.size()) + ": " + std::to_string(end - bytes.size()) +
                        " bytes are missing")
        .hint("the file is truncated: fetch it again");
  }
  const uint64_t padded_end = checked_add(data_start, pad(used, alignment_), "file size");
  if (bytes.size() > padded_end) {
    const std::string surplus = std::to_string(bytes.size() - padded_end) + " more";
    if (!options.allow_trailing) {
      throw bad_input("data", std::to_string(used) + " bytes, fully covered by tensors", surplus);
    }
    warnings_.push_back("data: " + surplus + " bytes after the last tensor; in " + *path_);
  }
  for (size_t i = 0; i < tensors_.size(); ++i) {
    tensors_[i].data = bytes.data() + std::min<uint64_t>(data_start + offsets[i], bytes.size());
  }
}

const StoredTensor* GgufFile::find(std::string_view name) const {
  const auto at = std::lower_bound(
      tensors_by_name_.begin(), tensors_by_name_.end(), name,
      [&](uint32_t i, std::string_view wanted) { return tensors_[i].name < wanted; });
  return at != tensors_by_name_.end() && tensors_[*at].name == name ? &tensors_[*at] : nullptr;
}

TensorView GgufFile::view(std::string_view name) const {
  if (const StoredTensor* tensor = find(name)) return tensor->view();
  throw bad_input("tensor", "a tensor " + quote(name), "none of that name").in(*path_);
}

}  // namespace mainstem
