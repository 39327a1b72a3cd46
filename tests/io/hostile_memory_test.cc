// The bound on memory: whatever a file claims, a reader allocates at most 64 MiB plus 8 times the
// bytes that are really present in its header.

#include <malloc.h>

#include <atomic>
#include <cstdlib>
#include <functional>
#include <new>
#include <string>

#include "io/gguf_builder.h"
#include "io/json.h"
#include "io/zip_builder.h"
#include "mainstem/dump.h"
#include "mainstem/gguf.h"
#include "mainstem/npz.h"
#include "mainstem/safetensors.h"

namespace {

std::atomic<bool> counting{false};
std::atomic<size_t> live{0}, peak{0};

void* counted(void* memory) {
  if (memory == nullptr) throw std::bad_alloc();
  if (counting) {
    const size_t now = live += malloc_usable_size(memory);
    if (now > peak) peak = now;
  }
  return memory;
}

void uncounted(void* memory) {
  if (counting && memory != nullptr) live -= malloc_usable_size(memory);
  std::free(memory);
}

}  // namespace

// Every allocation of this program; containers and strings come here.
void* operator new(size_t bytes) { return counted(std::malloc(bytes)); }
void* operator new[](size_t bytes) { return counted(std::malloc(bytes)); }
void* operator new(size_t bytes, std::align_val_t alignment) {
  const auto unit = static_cast<size_t>(alignment);
  return counted(std::aligned_alloc(unit, (bytes + unit - 1) / unit * unit));
}
void operator delete(void* memory) noexcept { uncounted(memory); }
void operator delete[](void* memory) noexcept { uncounted(memory); }
void operator delete(void* memory, size_t) noexcept { uncounted(memory); }
void operator delete[](void* memory, size_t) noexcept { uncounted(memory); }
void operator delete(void* memory, std::align_val_t) noexcept { uncounted(memory); }
void operator delete(void* memory, size_t, std::align_val_t) noexcept { uncounted(memory); }

namespace mainstem {
namespace {

using test::Bytes;
using test::GgufBuilder;

/// Bytes allocated at most at one time while `body` ran.
size_t peak_of(const std::function<void()>& body) {
  live = peak = 0;
  counting = true;
  try {
    body();
  } catch (const Error&) {
  }
  counting = false;
  return peak;
}

using Parse = std::function<void(std::span<const std::byte>)>;

// The whole bound: the constant and the part that grows.
void expect_bounded(const std::string& content, size_t header_bytes, const Parse& parse) {
  const size_t used = peak_of([&] { parse(test::as_bytes(content)); });
  EXPECT_LE(used, (size_t{64} << 20) + 8 * header_bytes) << "header of " << header_bytes;
}

// For headers that are valid: the growing part alone holds, up to a little, so that small headers
// can show it.
void expect_proportional(const std::string& content, size_t header_bytes, const Parse& parse) {
  EXPECT_NO_THROW(parse(test::as_bytes(content)));
  const size_t used = peak_of([&] { parse(test::as_bytes(content)); });
  EXPECT_LE(used, (size_t{1} << 20) + 8 * header_bytes) << "header of " << header_bytes;
}

void read_safetensors(std::span<const std::byte> bytes) {
  SafetensorsOptions options;
  options.max_header_bytes = UINT64_MAX;
  const auto file = SafetensorsFile::from_bytes(bytes, "x", options);
}

void read_gguf(std::span<const std::byte> bytes) {
  const auto file = GgufFile::from_bytes(bytes, "x");
}

std::string repeated(const std::function<std::string(int)>& item, int count) {
  std::string result;
  for (int i = 0; i < count; ++i) result += item(i);
  return result;
}

TEST(HostileMemory, TheMeterCounts) {
  EXPECT_GE(peak_of([] { std::string(1 << 20, 'x'); }), size_t{1} << 20);
  EXPECT_LT(peak_of([] {}), 100u);
}

TEST(HostileMemory, F7_ClaimedHeaderLengths) {
  for (const uint64_t length : {uint64_t{1} << 30, uint64_t{1} << 62, UINT64_MAX}) {
    const std::string content = Bytes().u64(length).raw("{\"a\":").str();
    EXPECT_LT(peak_of([&] { read_safetensors(test::as_bytes(content)); }), 10000u);
  }
}

TEST(HostileMemory, SafetensorsHeaderOfManySmallEntries) {
  for (const std::string dtype : {"F32", "X"}) {
    const std::string header = "{" +
                               repeated(
                                   [&](int i) {
                                     return (i == 0 ? "\"" : ",\"") + std::to_string(i) +
                                            "\":{\"dtype\":\"" + dtype +
                                            "\",\"shape\":[0],\"data_offsets\":[0,0]}";
                                   },
                                   60000) +
                               "}";
    const std::string content = test::safetensors(header);
    expect_proportional(content, header.size(), read_safetensors);
  }
}

TEST(HostileMemory, SafetensorsHeaderOfOtherParts) {
  const std::string metadata =
      "{\"__metadata__\":{" +
      repeated([](int i) { return (i == 0 ? "\"" : ",\"") + std::to_string(i) + "\":\"\""; },
               900000) +
      "}}";
  const std::string shapes =
      "{" +
      repeated(
          [](int i) {
            return (i == 0 ? "\"" : ",\"") + std::to_string(i) +
                   "\":{\"shape\":[0,0,0,0,0,0,0,0,0,0,0,0,"
                   "0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0],"
                   "\"dtype\":\"U8\",\"data_offsets\":[0,0]}";
          },
          60000) +
      "}";
  const std::string one_name = "{\"" + std::string(15 << 20, 'n') + "\":{}}";
  const std::string bad_name = "{\"" + std::string(15 << 20, 'n') + "\xff\":{}}";
  for (const std::string& header : {metadata, shapes, one_name, bad_name}) {
    expect_bounded(test::safetensors(header), header.size(), read_safetensors);
  }
}

TEST(HostileMemory, JsonDocuments) {
  const auto read = [](std::span<const std::byte> bytes) {
    parse_json({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
  };
  for (const std::string item : {",0", ",[]", ",{}", ",\"\"", ",{\"\":0}", ",[[]]", ",[0]"}) {
    const std::string text =
        "[0" + repeated([&](int) { return item; }, static_cast<int>(8000000 / item.size())) + "]";
    expect_bounded(text, text.size(), read);
  }
  const std::string keys =
      "{" +
      repeated([](int i) { return (i == 0 ? "\"" : ",\"") + std::to_string(i) + "\":0"; }, 900000) +
      "}";
  expect_bounded(keys, keys.size(), read);
}

TEST(HostileMemory, F12_ClaimedCountsOfGguf) {
  // The data is large, so that a count compared with the file's size alone would be believed.
  GgufBuilder file;
  file.u32("k", 1).tensor("a", 24, {32 << 20}, std::string(32 << 20, '\0'));
  for (const uint64_t count : {uint64_t{1} << 20, uint64_t{1} << 21, uint64_t{1} << 40}) {
    GgufBuilder tensors = file;
    tensors.tensor_count = count;
    EXPECT_LT(peak_of([&, content = tensors.build()] { read_gguf(test::as_bytes(content)); }),
              100000u);
    GgufBuilder entries = file;
    entries.entry_count = count;
    EXPECT_LT(peak_of([&, content = entries.build()] { read_gguf(test::as_bytes(content)); }),
              100000u);
  }
}

TEST(HostileMemory, F14_GgufHeadersOfManySmallRecords) {
  GgufBuilder entries;
  for (int i = 0; i < 100000; ++i) entries.entry(std::to_string(i), GgufType::kU8, Bytes().u8(0));
  const std::string many_entries = entries.build();
  expect_proportional(many_entries, many_entries.size(), read_gguf);
  for (const std::vector<uint64_t>& dims : {std::vector<uint64_t>{0}, {0, 1, 1, 1}}) {
    GgufBuilder tensors;
    for (int i = 0; i < 100000; ++i) tensors.tensor_info(std::to_string(i), 0, dims, 0);
    const std::string content = tensors.build();
    expect_proportional(content, content.size(), read_gguf);
  }
}

TEST(HostileMemory, F14_GgufStringArrays) {
  GgufBuilder file;
  static constexpr uint64_t kCount = 1000000;
  file.array("tokens", GgufType::kString, kCount, Bytes().raw(std::string(8 * kCount, '\0')));
  const std::string content = file.build();
  expect_proportional(content, content.size(), [](std::span<const std::byte> bytes) {
    const auto read = GgufFile::from_bytes(bytes, "x");
    EXPECT_EQ(read.get_strings("tokens")->size(), kCount);
  });
}

void read_dump(std::span<const std::byte> bytes) { Dump::from_bytes(bytes, "x"); }

// One opcode of a byte or two each, for a value of tens of bytes.
TEST(HostileMemory, PicklesOfManySmallValues) {
  for (const std::string unit :
       {"N", "}", "]", ")", "(", "2", "K\1", "Nq\1", "](", "]0", "\x85", "]Na", "}NNs"}) {
    const std::string content =
        "\x80\x02N" + repeated([&](int) { return unit; }, static_cast<int>(4000000 / unit.size()));
    expect_bounded(content, content.size(), read_dump);
  }
}

TEST(HostileMemory, PrintedTextOfManyValuesOrNodes) {
  const std::string head = "ggml_debug: a = (f32) ADD(}) = {";
  const std::string values = head + "4000000, 1, 1, 1}\n[\n[\n[" +
                             repeated([](int) { return "1,"; }, 4000000) + "],\n],\n]\n";
  expect_bounded(values, values.size(), read_dump);
  const std::string nodes = repeated([&](int) { return head + "1, 1, 1, 1}\n"; }, 100000);
  expect_bounded(nodes, nodes.size(), read_dump);
}

// A member that claims far more than its stream holds. Tensors take their memory past operator new,
// so the peak of the whole process is measured.
TEST(HostileMemory, ZipClaimsWithoutContent) {
  const auto resident_peak_kb = [] {
    std::ifstream status("/proc/self/status");
    std::string line;
    while (std::getline(status, line)) {
      if (line.starts_with("VmHWM:")) return std::stol(line.substr(6));
    }
    return -1L;
  };
  constexpr int64_t kClaim = int64_t{900} << 20;
  const std::string head = npy_header_text(DType::kU8, Shape{kClaim});
  const std::string stream =
      test::deflated(head + std::string(16, '\0')) + std::string(1 << 20, 'x');
  const std::string content = test::zip_archive({{.name = "a.npy",
                                                  .compress = true,
                                                  .data = stream,
                                                  .size = head.size() + uint64_t{kClaim}}});
  const long before = resident_peak_kb();
  const NpzFile file = NpzFile::from_bytes(test::as_bytes(content), "x.npz");
  test::expect_bad_input({"unpacked size"}, [&] { file.read("a"); });
  EXPECT_LE(resident_peak_kb() - before, 64 << 10);
}

}  // namespace
}  // namespace mainstem
