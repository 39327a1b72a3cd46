#include <algorithm>
#include <system_error>
#include <utility>

#include "io/dump/dump_reader.h"
#include "io/npy_format.h"
#include "io/text.h"
#include "mainstem/error.h"
#include "mainstem/npz.h"

namespace mainstem {
namespace {

constexpr std::string_view kSuffix = ".npy";
constexpr int kMaxFolderDepth = 16;

class NpyReader final : public DumpReader {
 public:
  explicit NpyReader(DumpFile file) : file_(std::move(file)) {}

  Tensor read(const DumpTensor&) const override { return parse_npy(file_.bytes); }

 private:
  DumpFile file_;
};

// Opens each file again, so that a folder of thousands holds no mappings.
class NpyFolderReader final : public DumpReader {
 public:
  explicit NpyFolderReader(std::vector<std::filesystem::path> files) : files_(std::move(files)) {}

  Tensor read(const DumpTensor& tensor) const override {
    Tensor values = read_npy(files_[tensor.id]);
    if (values.dtype() != tensor.dtype || values.shape() != tensor.shape) {
      throw bad_input("file", "the array that was there when the dump was opened", "another one")
          .in(files_[tensor.id].string());
    }
    return values;
  }

 private:
  std::vector<std::filesystem::path> files_;
};

void add_array(const NpyHeader& header, std::string name, size_t id, DumpContent& content) {
  if (!header.unknown_type.empty()) {
    content.left_out.push_back(quote(name) + " has the numpy type " + header.unknown_type +
                               ", which is not read");
    return;
  }
  DumpTensor& tensor = content.tensors.emplace_back();
  tensor.name = std::move(name);
  tensor.dtype = header.dtype;
  tensor.shape = header.shape;
  tensor.id = id;
}

// Sub-folders that are links are not entered: they may lead in circles.
std::vector<std::filesystem::path> list_arrays(const std::filesystem::path& folder) {
  namespace fs = std::filesystem;
  std::vector<fs::path> files;
  std::error_code failure;
  fs::recursive_directory_iterator entry(folder, failure);
  for (const fs::recursive_directory_iterator end; !failure && entry != end;
       entry.increment(failure)) {
    if (entry.depth() > kMaxFolderDepth) {
      throw bad_input("folder", "at most " + std::to_string(kMaxFolderDepth) + " levels", "more");
    }
    std::error_code ignored;
    if (entry->path().extension() == kSuffix && !entry->is_directory(ignored)) {
      files.push_back(entry->path());
    }
  }
  if (failure) throw bad_input("folder", "a readable folder", failure.message());
  std::sort(files.begin(), files.end());
  return files;
}

std::string joined_name(const std::filesystem::path& relative) {
  std::string result = relative.generic_string();
  result.resize(result.size() - kSuffix.size());
  std::replace(result.begin(), result.end(), '/', '.');
  return result;
}

}  // namespace

DumpContent open_npy_dump(const DumpFile& file) {
  DumpContent content;
  content.format = DumpFormat::kNpy;
  const NpyArray array = split_npy(file.bytes);
  require_known_type(array.header);
  add_array(array.header, file.stem, 0, content);
  content.reader = std::make_shared<NpyReader>(file);
  return content;
}

DumpContent open_npy_folder(const std::filesystem::path& folder) {
  DumpContent content;
  content.format = DumpFormat::kNpyFolder;
  std::vector<std::filesystem::path> files = list_arrays(folder);
  if (files.empty()) {
    throw bad_input("folder", ".npy files, or a model debugger's JSON", "none of them")
        .hint("other dumps are one file: give that");
  }
  for (size_t i = 0; i < files.size(); ++i) {
    const auto mapped = MappedFile::open(files[i]);
    with_context(mapped->path(), [&] {
      refuse_placeholder(mapped->bytes(), "a .npy file");
      add_array(split_npy(mapped->bytes()).header, joined_name(files[i].lexically_relative(folder)),
                i, content);
    });
  }
  content.reader = std::make_shared<NpyFolderReader>(std::move(files));
  return content;
}

}  // namespace mainstem
