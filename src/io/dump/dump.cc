#include "mainstem/dump.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <utility>

#include "base/byte_reader.h"
#include "io/dump/dump_reader.h"
#include "io/text.h"
#include "mainstem/error.h"

namespace mainstem {
namespace {

constexpr size_t kLookAtBytes = 4096;
constexpr std::string_view kFormats =
    "safetensors, npz, npy, a .pt file of torch.save, text of llama.cpp's eval-callback, or the "
    "JSON of transformers' model debugger";

bool looks_like_safetensors(const DumpFile& file) {
  if (file.bytes.size() < 10 || file.text()[8] != '{') return false;
  const auto length = ByteReader(file.bytes).read<uint64_t>("header length");
  // Text that begins so claims a header of exabytes.
  return length < (uint64_t{1} << 48);
}

bool looks_like_text(std::string_view text) {
  return text.substr(0, kLookAtBytes).find('\0') == text.npos;
}

// A pickle of protocol 2 to 5. The older form of torch.save is several of them.
bool looks_like_pickle(std::string_view text) {
  return text.size() > 2 && text[0] == '\x80' && text[1] >= 2 && text[1] <= 5;
}

struct Refusal {
  std::string_view begins;
  const char* what;
  const char* hint;
};
constexpr Refusal kRefusals[] = {
    {"GGUF", "a GGUF file", "that is a model; a dump holds activations"},
    {"\x89HDF", "an HDF5 file", "write its arrays with numpy.savez"},
    {"\xFF\xFE", "UTF-16 text", "save it as UTF-8 (PowerShell: | Out-File -Encoding utf8)"},
    {"\xFE\xFF", "UTF-16 text", "save it as UTF-8 (PowerShell: | Out-File -Encoding utf8)"},
};

[[noreturn]] void refuse(const DumpFile& file) {
  for (const Refusal& refusal : kRefusals) {
    if (file.text().starts_with(refusal.begins)) {
      throw bad_input("dump", std::string(kFormats), refusal.what).hint(refusal.hint);
    }
  }
  // ustar: what torch.save wrote before version 0.2.
  if (file.text().substr(0, 512).find("ustar") == 257) {
    throw bad_input("dump", std::string(kFormats), "a tar archive");
  }
  throw bad_input("dump", std::string(kFormats), describe_content(file.bytes));
}

DumpContent open_file(const DumpFile& file, const DumpOptions& options) {
  refuse_placeholder(file.bytes, "a dump");
  const std::string_view text = file.text();
  if (text.starts_with("PK\x03\x04") || text.starts_with("PK\x05\x06")) {
    return open_zip_dump(file, options);
  }
  if (text.starts_with("\x93NUMPY")) return open_npy_dump(file);
  if (looks_like_safetensors(file)) return open_safetensors_dump(file);
  if (looks_like_pickle(text)) return open_legacy_torch_dump(file);
  if (looks_like_text(text)) {
    const size_t first = text.find_first_not_of(" \t\r\n");
    if (first != text.npos && text[first] == '{') return open_debugger_json(file);
    if (is_llama_text(text)) return open_llama_text(file);
  }
  refuse(file);
}

DumpFile map_file(const std::filesystem::path& path) {
  const auto mapped = MappedFile::open(path);
  std::filesystem::path folder = path.parent_path();
  if (folder.empty()) folder = ".";
  return {.bytes = mapped->bytes(),
          .path = mapped->path(),
          .stem = path.stem().string(),
          .mapped = mapped,
          .folder = std::move(folder)};
}

// The model debugger's folder is known by its JSON; all others hold .npy files.
DumpContent open_folder(const std::filesystem::path& folder, const DumpOptions& options) {
  std::vector<std::filesystem::path> trees;
  std::error_code failure;
  std::filesystem::directory_iterator entry(folder, failure);
  for (const std::filesystem::directory_iterator end; !failure && entry != end;
       entry.increment(failure)) {
    if (entry->path().filename().string().ends_with("_debug_tree_FULL_TENSORS.json")) {
      trees.push_back(entry->path());
    }
  }
  if (failure) throw bad_input("folder", "a readable folder", failure.message());
  if (trees.size() > 1) {
    throw bad_input("folder", "one model debugger's JSON", std::to_string(trees.size()))
        .hint("give the file of one model");
  }
  if (trees.empty()) return open_npy_folder(folder);
  return with_context(trees[0].string(), [&] { return open_file(map_file(trees[0]), options); });
}

void number_occurrences(std::vector<DumpTensor>& tensors) {
  std::map<std::pair<std::string_view, std::string_view>, int> seen;
  for (DumpTensor& tensor : tensors) tensor.occurrence = seen[{tensor.name, tensor.op}]++;
}

}  // namespace

PrintedValues DumpReader::read_printed(const DumpTensor&) const {
  throw internal_error("read_printed of a tensor that was not printed");
}

Dump DumpAccess::make(std::string path, DumpContent content) {
  Dump dump;
  dump.path_ = std::move(path);
  dump.format_ = content.format;
  dump.tensors_ = std::move(content.tensors);
  dump.left_out_ = std::move(content.left_out);
  dump.reader_ = std::move(content.reader);
  number_occurrences(dump.tensors_);
  dump.by_name_.resize(dump.tensors_.size());
  std::iota(dump.by_name_.begin(), dump.by_name_.end(), 0u);
  const auto key = [&](uint32_t i) {
    return std::pair(std::string_view(dump.tensors_[i].name), i);
  };
  std::sort(dump.by_name_.begin(), dump.by_name_.end(),
            [&](uint32_t a, uint32_t b) { return key(a) < key(b); });
  return dump;
}

std::string_view name(DumpFormat format) {
  switch (format) {
    case DumpFormat::kSafetensors:
      return "safetensors";
    case DumpFormat::kNpz:
      return "npz";
    case DumpFormat::kNpy:
      return "npy";
    case DumpFormat::kNpyFolder:
      return "folder of npy";
    case DumpFormat::kTorch:
      return "torch.save";
    case DumpFormat::kLlamaText:
      return "llama.cpp eval-callback text";
    case DumpFormat::kDebuggerJson:
      return "transformers model debugger";
    case DumpFormat::kTensors:
      return "tensors in memory";
  }
  return "unknown";
}

Dump Dump::open(const std::filesystem::path& path, const DumpOptions& options) {
  const std::string shown = path.string();
  std::error_code ignored;
  const bool folder = std::filesystem::is_directory(path, ignored);
  return DumpAccess::make(shown, with_context(shown, [&] {
                            return folder ? open_folder(path, options)
                                          : open_file(map_file(path), options);
                          }));
}

Dump Dump::from_bytes(std::span<const std::byte> bytes, const std::string& name,
                      const DumpOptions& options) {
  const DumpFile file{.bytes = bytes,
                      .path = name,
                      .stem = std::filesystem::path(name).stem().string(),
                      .mapped = nullptr,
                      .folder = {}};
  return DumpAccess::make(name, with_context(name, [&] { return open_file(file, options); }));
}

Dump Dump::from_tensors(std::span<const NamedTensor> tensors, const std::string& name) {
  return DumpAccess::make(name, dump_of_tensors(tensors));
}

const DumpTensor* Dump::find(std::string_view name) const {
  const auto at =
      std::lower_bound(by_name_.begin(), by_name_.end(), name,
                       [&](uint32_t i, std::string_view key) { return tensors_[i].name < key; });
  return at != by_name_.end() && tensors_[*at].name == name ? &tensors_[*at] : nullptr;
}

Tensor Dump::read(const DumpTensor& tensor) const {
  return with_context(path_, [&] {
    return with_context(quote(tensor.name), [&] {
      if (tensor.printed) {
        throw bad_input("values", "a tensor with all its values", "a printed one");
      }
      return reader_->read(tensor);
    });
  });
}

PrintedValues Dump::read_printed(const DumpTensor& tensor) const {
  if (!tensor.printed) throw internal_error("read_printed of a tensor that was not printed");
  return reader_->read_printed(tensor);
}

}  // namespace mainstem
