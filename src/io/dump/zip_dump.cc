#include <algorithm>
#include <utility>

#include "io/dump/dump_reader.h"
#include "io/dump/torch_dump.h"
#include "io/npy_member.h"
#include "io/text.h"
#include "io/zip_reader.h"
#include "mainstem/error.h"

namespace mainstem {
namespace {

constexpr std::string_view kSuffix = ".npy";

class NpzReader final : public DumpReader {
 public:
  NpzReader(DumpFile file, std::shared_ptr<const ZipArchive> archive)
      : file_(std::move(file)), archive_(std::move(archive)) {}

  Tensor read(const DumpTensor& tensor) const override {
    const ZipMember& member = archive_->members()[tensor.id];
    Tensor values = read_npy_member(member);
    drop_mapped_pages(member.data);
    return values;
  }

 private:
  DumpFile file_;
  std::shared_ptr<const ZipArchive> archive_;
};

DumpContent open_npz(const DumpFile& file, std::shared_ptr<const ZipArchive> archive) {
  DumpContent content;
  content.format = DumpFormat::kNpz;
  const auto& members = archive->members();
  for (size_t i = 0; i < members.size(); ++i) {
    if (!members[i].name.ends_with(kSuffix)) continue;
    const std::string name = members[i].name.substr(0, members[i].name.size() - kSuffix.size());
    const NpyHeader header = with_context(quote(name), [&] { return read_npy_header(members[i]); });
    if (!header.unknown_type.empty()) {
      content.left_out.push_back(quote(name) + " has the numpy type " + header.unknown_type +
                                 ", which is not read");
      continue;
    }
    DumpTensor& tensor = content.tensors.emplace_back();
    tensor.name = name;
    tensor.dtype = header.dtype;
    tensor.shape = header.shape;
    tensor.id = i;
  }
  content.reader = std::make_shared<NpzReader>(file, std::move(archive));
  return content;
}

}  // namespace

DumpContent open_zip_dump(const DumpFile& file, const DumpOptions& options) {
  auto archive = std::make_shared<const ZipArchive>(file.bytes, options.max_inflated_bytes);
  const auto& members = archive->members();
  const auto pickle = std::find_if(members.begin(), members.end(), [](const ZipMember& member) {
    return member.name.ends_with("/data.pkl");
  });
  if (pickle != members.end()) return open_torch_archive(file, std::move(archive), *pickle);
  const bool has_array = std::any_of(members.begin(), members.end(), [](const ZipMember& member) {
    return member.name.ends_with(kSuffix);
  });
  if (has_array || members.empty()) return open_npz(file, std::move(archive));
  throw bad_input("zip archive", "arrays (.npy) or a torch.save's data.pkl",
                  "neither, but " + quote(members[0].name));
}

}  // namespace mainstem
