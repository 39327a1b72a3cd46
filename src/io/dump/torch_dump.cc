#include "io/dump/torch_dump.h"

#include <zlib.h>

#include <atomic>
#include <cstring>
#include <optional>
#include <utility>

#include "base/byte_reader.h"
#include "io/dump/strided.h"
#include "io/dump/torch_walk.h"
#include "io/text.h"
#include "mainstem/error.h"

namespace mainstem {
namespace {

// The content of a storage. Its checksum is looked at when it is first read.
struct StorageBytes {
  std::span<const std::byte> bytes;
  std::optional<uint32_t> crc;
};

// Everything that a loaded pickle needs to stay readable.
struct TorchFile {
  DumpFile file;
  std::shared_ptr<const ZipArchive> archive;
  std::string pickle_text;  // where data.pkl was compressed
  TorchWorld world;
  std::vector<TorchLeaf> leaves;
  std::vector<StorageBytes> storages;
  bool big_endian = false;
};

class TorchReader final : public DumpReader {
 public:
  explicit TorchReader(std::unique_ptr<const TorchFile> file)
      : file_(std::move(file)),
        checked_(std::make_unique<std::atomic<bool>[]>(file_->storages.size())) {}

  Tensor read(const DumpTensor& tensor) const override {
    const TorchLeaf& leaf = file_->leaves[tensor.id];
    if (leaf.tensor == nullptr) return leaf.numbers;
    const TorchTensor& view = *leaf.tensor;
    const StorageBytes& storage = file_->storages[view.storage];
    check(view.storage);
    Tensor values = gather_strided(
        storage.bytes, {tensor.dtype, view.sizes, view.strides, view.offset, file_->big_endian});
    drop_mapped_pages(storage.bytes);
    return values;
  }

 private:
  void check(size_t index) const {
    const StorageBytes& storage = file_->storages[index];
    if (!storage.crc || checked_[index]) return;
    const uLong crc =
        crc32_z(0, reinterpret_cast<const Bytef*>(storage.bytes.data()), storage.bytes.size());
    if (crc != *storage.crc) {
      throw bad_input("checksum", std::to_string(*storage.crc), std::to_string(crc))
          .hint("the file is damaged: make or fetch it again");
    }
    checked_[index] = true;
  }

  std::unique_ptr<const TorchFile> file_;
  std::unique_ptr<std::atomic<bool>[]> checked_;
};

// With torch.serialization.set_crc32_options(False) all checksums are 0.
std::optional<uint32_t> checksum_of(const ZipMember& member) {
  return member.crc == 0 ? std::nullopt : std::optional(member.crc);
}

std::string_view read_small_member(const ZipMember& member, std::string& kept) {
  if (!member.deflated) {
    return {reinterpret_cast<const char*>(member.data.data()), member.data.size()};
  }
  ZipStream stream(member);
  kept.resize(member.size);
  stream.read(std::as_writable_bytes(std::span(kept)));
  stream.finish();
  return kept;
}

bool is_big_endian(const ZipArchive& archive, const std::string& folder) {
  const ZipMember* member = archive.find(folder + "byteorder");
  if (member == nullptr) return false;
  std::string kept;
  const std::string_view order = read_small_member(*member, kept);
  if (order != "little" && order != "big") {
    throw bad_input("byteorder", "\"little\" or \"big\"", quote(order));
  }
  return order == "big";
}

StorageBytes storage_of(const ZipArchive& archive, const std::string& name,
                        const TorchStorage& storage) {
  const ZipMember* member = archive.find(name);
  if (member == nullptr) throw bad_input("storage", "a member " + quote(name), "none");
  if (member->deflated) {
    throw bad_input("storage " + quote(name), "a stored member, as torch.save writes",
                    "a compressed one")
        .hint("load the file in PyTorch and save it again");
  }
  if (member->size != static_cast<uint64_t>(storage.bytes())) {
    throw bad_input("storage " + quote(name), std::to_string(storage.bytes()) + " bytes",
                    std::to_string(member->size));
  }
  return {member->data, checksum_of(*member)};
}

DumpContent finish(std::unique_ptr<TorchFile> torch, const Pickle& pickle, PickleRef root,
                   MemoryBudget& budget) {
  DumpContent content;
  content.format = DumpFormat::kTorch;
  torch->leaves = collect_tensors(pickle, torch->world, root, torch->file.stem, budget, content);
  content.reader = std::make_shared<TorchReader>(std::move(torch));
  return content;
}

// The older form: five pickles (a magic number, a version, facts about the machine, the object, the
// keys of its storages), then each storage with its element count before it.
class LegacyLoader {
 public:
  explicit LegacyLoader(TorchFile& torch)
      : torch_(torch), rest_(torch.file.bytes), budget_(rest_.size()) {}

  DumpContent load(std::unique_ptr<TorchFile> torch) {
    check_preamble();
    Pickle object(rest_, torch_.world, budget_);
    const PickleRef root = load_next(object);
    read_storages();
    return finish(std::move(torch), object, root, budget_);
  }

 private:
  PickleRef load_next(Pickle& pickle) {
    const PickleRef root =
        with_context("pickle " + std::to_string(++number_), [&] { return pickle.load(); });
    rest_ = rest_.subspan(pickle.size());
    return root;
  }
  void check_preamble() {
    static constexpr std::string_view kMagic{"\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19", 10};
    TorchWorld nothing;
    Pickle magic(rest_, nothing, budget_);
    const PickleValue& number = magic[load_next(magic)];
    if (number.kind != PickleKind::kBigInt || number.text != kMagic) {
      throw bad_input("pickle", "the magic number of torch.save", std::string(name(number.kind)))
          .hint("plain pickles are not loaded: write the tensors with torch.save or numpy.savez");
    }
    Pickle version(rest_, nothing, budget_);
    const PickleValue& protocol = version[load_next(version)];
    if (protocol.kind != PickleKind::kInt || protocol.integer != 1001) {
      throw bad_input("torch.save protocol", "1001", std::to_string(protocol.integer));
    }
    Pickle machine(rest_, nothing, budget_);
    const PickleValue& facts = machine[load_next(machine)];
    for (size_t i = 0; facts.kind == PickleKind::kDict && i < facts.items.size(); i += 2) {
      if (machine[facts.items[i]].text == "little_endian" &&
          machine[facts.items[i + 1]].integer == 0) {
        throw bad_input("byte order", "little-endian", "big-endian");
      }
    }
  }
  void read_storages() {
    TorchWorld nothing;
    Pickle list(rest_, nothing, budget_);
    const PickleValue& keys = list[load_next(list)];
    torch_.storages.resize(torch_.world.storages().size());
    std::vector<bool> seen(torch_.storages.size());
    ByteReader reader(rest_);
    for (const PickleRef ref : keys.items) {
      const auto index = torch_.world.find_storage(list[ref].text);
      if (!index || seen[*index]) {
        throw bad_input("storage keys", "those of the tensors, each once", quote(list[ref].text));
      }
      const TorchStorage& storage = torch_.world.storages()[*index];
      const auto count = reader.read<int64_t>("storage size");
      if (count != storage.count) {
        throw bad_input("storage " + quote(storage.key),
                        std::to_string(storage.count) + " elements", std::to_string(count));
      }
      torch_.storages[*index].bytes =
          reader.take(static_cast<uint64_t>(storage.bytes()), "storage");
      seen[*index] = true;
    }
    for (size_t i = 0; i < seen.size(); ++i) {
      if (seen[i]) continue;
      throw bad_input("storage keys", "one for each tensor",
                      "none for " + quote(torch_.world.storages()[i].key));
    }
    if (reader.remaining() != 0) {
      throw bad_input("file", "an end after the last storage",
                      std::to_string(reader.remaining()) + " more bytes");
    }
  }

  TorchFile& torch_;
  std::span<const std::byte> rest_;
  MemoryBudget budget_;
  int number_ = 0;
};

}  // namespace

DumpContent open_torch_archive(const DumpFile& file, std::shared_ptr<const ZipArchive> archive,
                               const ZipMember& member) {
  auto torch = std::make_unique<TorchFile>();
  torch->file = file;
  torch->archive = std::move(archive);
  const std::string folder = member.name.substr(0, member.name.size() - 8);  // "data.pkl"
  torch->big_endian = is_big_endian(*torch->archive, folder);
  const std::string_view text = read_small_member(member, torch->pickle_text);
  MemoryBudget budget(text.size());
  Pickle pickle(std::as_bytes(std::span(text)), torch->world, budget);
  const PickleRef root = with_context(member.name, [&] {
    const PickleRef result = pickle.load();
    if (pickle.size() != text.size()) {
      throw bad_input("pickle", "an end after its value",
                      std::to_string(text.size() - pickle.size()) + " more bytes");
    }
    return result;
  });
  for (const TorchStorage& storage : torch->world.storages()) {
    torch->storages.push_back(
        storage_of(*torch->archive, folder + "data/" + std::string(storage.key), storage));
  }
  return finish(std::move(torch), pickle, root, budget);
}

DumpContent open_legacy_torch_dump(const DumpFile& file) {
  auto torch = std::make_unique<TorchFile>();
  torch->file = file;
  LegacyLoader loader(*torch);
  return loader.load(std::move(torch));
}

}  // namespace mainstem
