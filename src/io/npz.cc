#include <algorithm>
#include <array>
#include <set>
#include <utility>

#include "io/mapped_file.h"
#include "io/npy_member.h"
#include "io/text.h"
#include "io/zip_reader.h"
#include "io/zip_writer.h"
#include "mainstem/error.h"
#include "mainstem/npz.h"

namespace mainstem {
namespace {

constexpr std::string_view kSuffix = ".npy";

// Reads up to the values.
NpyHeader read_header(ZipStream& stream) {
  std::array<std::byte, kNpyShortPreamble + 2> first{};
  const size_t available = std::min<uint64_t>(stream.remaining(), kNpyShortPreamble + 2);
  const std::span<std::byte> head(first.data(), available);
  stream.read(head);
  const NpyPreamble preamble = parse_npy_preamble(head);
  // Two bytes of the text of format 1 have been read with the preamble.
  std::string text(reinterpret_cast<const char*>(first.data()) + preamble.bytes,
                   available - preamble.bytes);
  if (text.size() > preamble.text_bytes) {
    throw bad_input("npy header length", "at least 2", std::to_string(preamble.text_bytes));
  }
  const size_t known = text.size();
  text.resize(preamble.text_bytes);
  stream.read(std::as_writable_bytes(std::span(text).subspan(known)));
  NpyHeader header = parse_npy_header(text);
  if (!header.unknown_type.empty()) return header;
  const auto expected = static_cast<uint64_t>(byte_count(header.dtype, header.shape));
  if (stream.remaining() != expected) {
    throw bad_input("npy data",
                    std::to_string(expected) + " bytes for " + std::string(name(header.dtype)) +
                        " " + to_string(header.shape),
                    std::to_string(stream.remaining()));
  }
  return header;
}

}  // namespace

NpyHeader read_npy_header(const ZipMember& member) {
  ZipStream stream(member);
  return read_header(stream);
}

Tensor read_npy_member(const ZipMember& member) {
  ZipStream stream(member);
  const NpyHeader header = read_header(stream);
  require_known_type(header);
  Tensor values(header.dtype, header.shape);
  stream.read({values.data<std::byte>(), static_cast<size_t>(values.view().bytes())});
  stream.finish();
  return arrange_npy(header, std::move(values));
}

struct NpzFile::State {
  State(std::span<const std::byte> bytes, const NpzOptions& options)
      : archive(bytes, options.max_inflated_bytes) {}

  ZipArchive archive;
  std::string path;
  std::shared_ptr<const MappedFile> mapped;
};

NpzFile NpzFile::open(const std::filesystem::path& path, const NpzOptions& options) {
  const auto mapped = MappedFile::open(path);
  NpzFile file = from_bytes(mapped->bytes(), mapped->path(), options);
  auto state = std::make_shared<State>(*file.state_);
  state->mapped = mapped;
  file.state_ = std::move(state);
  return file;
}

NpzFile NpzFile::from_bytes(std::span<const std::byte> bytes, std::string name,
                            const NpzOptions& options) {
  NpzFile file;
  with_context(name, [&] {
    refuse_placeholder(bytes, "an .npz file");
    auto state = std::make_shared<State>(bytes, options);
    for (const ZipMember& member : state->archive.members()) {
      std::string_view stem = member.name;
      if (!stem.ends_with(kSuffix)) continue;
      stem.remove_suffix(kSuffix.size());
      file.names_.emplace_back(stem);
    }
    state->path = name;
    file.state_ = std::move(state);
  });
  return file;
}

bool NpzFile::has(std::string_view name) const {
  return state_->archive.find(std::string(name) + std::string(kSuffix)) != nullptr;
}

Tensor NpzFile::read(std::string_view name) const {
  const ZipMember* member = state_->archive.find(std::string(name) + std::string(kSuffix));
  if (member == nullptr) {
    throw bad_input("array", "an array " + quote(name), "none of that name").in(state_->path);
  }
  return with_context(state_->path, [&] {
    return with_context(quote(name), [&] { return read_npy_member(*member); });
  });
}

const std::string& NpzFile::path() const { return state_->path; }

struct NpzWriter::State {
  explicit State(const std::filesystem::path& target) : file(target), path(target.string()) {}

  AtomicFile file;
  ZipWriter zip{file};
  std::string path;
  std::set<std::string, std::less<>> names;
};

NpzWriter::NpzWriter(const std::filesystem::path& path) : state_(std::make_unique<State>(path)) {}
NpzWriter::~NpzWriter() = default;
NpzWriter::NpzWriter(NpzWriter&&) noexcept = default;
NpzWriter& NpzWriter::operator=(NpzWriter&&) noexcept = default;

void NpzWriter::write(std::string_view name, const TensorView& view) {
  const std::string header = with_context(state_->path, [&] {
    const bool valid =
        !name.empty() && name.size() < 60000 && valid_utf8_prefix(name) == name.size();
    if (!valid) throw usage_error("array name", "a UTF-8 text", quote(name));
    if (!state_->names.emplace(name).second) {
      throw usage_error("array names", "each once", quote(name) + " twice");
    }
    return with_context(quote(name), [&] { return npy_header_text(view.dtype(), view.shape()); });
  });
  state_->zip.add(std::string(name) + std::string(kSuffix), header,
                  {view.data(), static_cast<size_t>(view.bytes())});
}

void NpzWriter::finish() {
  state_->zip.finish();
  state_->file.commit();
}

void write_npz(const std::filesystem::path& path, std::span<const NamedTensor> tensors) {
  NpzWriter writer(path);
  for (const NamedTensor& tensor : tensors) writer.write(tensor.name, tensor.view);
  writer.finish();
}

}  // namespace mainstem
