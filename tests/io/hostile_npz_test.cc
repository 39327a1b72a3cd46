// Odd and hostile npz files; names as in the other hostile tests.

#include <deque>
#include <string>
#include <vector>

#include "io/zip_builder.h"
#include "mainstem/npz.h"

namespace mainstem {
namespace {

using test::expect_bad_input;
using test::npy_of;
using test::zip_archive;
using test::ZipLayout;
using test::ZipPart;

NpzFile parse(const std::string& content, const NpzOptions& options = {}) {
  // A file views its bytes; these live until the program ends.
  static std::deque<std::string> kept;
  return NpzFile::from_bytes(test::as_bytes(kept.emplace_back(content)), "x.npz", options);
}

TEST(HostileNpz, F1_PlaceholdersAndOtherContent) {
  expect_bad_input({"Git LFS"}, [] { parse("version https://git-lfs.github.com/spec/v1"); });
  expect_bad_input({"an end record", "an empty file"}, [] { parse(""); });
  expect_bad_input({"a .npy file"}, [] { parse(npy_of({1})); });
}

TEST(HostileNpz, F3_EveryTruncationIsAnError) {
  const std::string content = zip_archive(
      {{.name = "a.npy", .content = npy_of({1})}, {.name = "b.npy", .content = npy_of({2})}});
  for (size_t size = 0; size < content.size(); ++size) {
    expect_bad_input({"x.npz"}, [&] { parse(content.substr(0, size)); });
  }
}

TEST(HostileNpz, F4_BytesAroundTheArchive) {
  const std::string content = zip_archive({{.name = "a.npy", .content = npy_of({1})}});
  expect_bad_input({}, [&] { parse(content + "x"); });
  expect_bad_input({}, [&] { parse("x" + content); });
}

TEST(HostileNpz, DamageIsFoundByTheChecksum) {
  const ZipPart stored{.name = "a.npy", .content = npy_of({1}), .crc = 1};
  expect_bad_input({"checksum", "\"a\"", "x.npz"}, [&] { parse(zip_archive({stored})).read("a"); });
  const ZipPart packed{.name = "a.npy", .content = npy_of({1}), .compress = true, .crc = 1};
  expect_bad_input({"checksum"}, [&] { parse(zip_archive({packed})).read("a"); });
}

TEST(HostileNpz, Methods) {
  const std::string content = npy_of({1});
  expect_bad_input({"zip method", "12", "\"a.npy\""}, [&] {
    parse(zip_archive({{.name = "a.npy", .content = content, .method = 12}}));
  });
  expect_bad_input({"encrypted"}, [&] {
    parse(zip_archive({{.name = "a.npy", .content = content, .flags = 1}}));
  });
  expect_bad_input({"equal sizes"},
                   [&] { parse(zip_archive({{.name = "a.npy", .content = content, .size = 7}})); });
}

TEST(HostileNpz, LocalHeadersMustAgree) {
  const std::string content = npy_of({1});
  expect_bad_input({"local header", "\"b.npy\""}, [&] {
    parse(zip_archive({{.name = "a.npy", .content = content, .local_name = "b.npy"}}));
  });
  for (const uint64_t offset : {uint64_t{1}, uint64_t{100000}, uint64_t{0xFFFFFFFE}}) {
    expect_bad_input({"local header"}, [&] {
      parse(zip_archive({{.name = "a.npy", .content = content, .local_offset = offset}}));
    });
  }
}

TEST(HostileNpz, F6_OverlapAndDuplicates) {
  const std::string content = npy_of({1});
  expect_bad_input({"do not overlap"}, [&] {
    parse(zip_archive({{.name = "a.npy", .content = content},
                       {.name = "a.npy", .content = content, .local_offset = 0}}));
  });
  expect_bad_input({"\"a.npy\" twice"}, [&] {
    parse(zip_archive(
        {{.name = "a.npy", .content = content}, {.name = "a.npy", .content = content}}));
  });
}

TEST(HostileNpz, F12_Counts) {
  const std::vector<ZipPart> parts = {{.name = "a.npy", .content = npy_of({1})}};
  ZipLayout layout;
  layout.count = 2;
  expect_bad_input({"x.npz"}, [&] { parse(zip_archive(parts, layout)); });
  layout.count = 0;
  expect_bad_input({"nothing after the last member"}, [&] { parse(zip_archive(parts, layout)); });
  layout = {};
  layout.zip64 = true;
  for (const uint64_t count : {uint64_t{2}, uint64_t{1} << 40, UINT64_MAX}) {
    layout.zip64_count = count;
    expect_bad_input({"x.npz"}, [&] { parse(zip_archive(parts, layout)); });
  }
  layout = {};
  layout.zip64 = true;
  for (const uint64_t offset : {uint64_t{0}, uint64_t{1} << 40, UINT64_MAX}) {
    layout.zip64_end_offset = offset;
    expect_bad_input({"zip64"}, [&] { parse(zip_archive(parts, layout)); });
  }
  layout = {};
  layout.directory_offset = 1;
  expect_bad_input({"zip directory"}, [&] { parse(zip_archive(parts, layout)); });
  layout = {};
  layout.directory_size = UINT32_MAX;
  expect_bad_input({"zip directory"}, [&] { parse(zip_archive(parts, layout)); });
}

TEST(HostileNpz, BombsAreBounded) {
  const std::string zeros = npy_of(std::vector<float>(1 << 20));
  const std::vector<ZipPart> parts = {{.name = "a.npy", .content = zeros, .compress = true},
                                      {.name = "b.npy", .content = zeros, .compress = true}};
  NpzOptions options;
  options.max_inflated_bytes = 2 * zeros.size();
  EXPECT_EQ(parse(zip_archive(parts), options).read("a").count(), 1 << 20);
  options.max_inflated_bytes -= 1;
  expect_bad_input({"unpacked size", "max_inflated_bytes"},
                   [&] { parse(zip_archive(parts), options); });
  expect_bad_input({"1032 bytes per compressed byte"}, [] {
    parse(zip_archive({{.name = "a.npy", .content = "x", .compress = true, .size = 1 << 20}}));
  });
}

TEST(HostileNpz, SizesThatTheStreamDoesNotHave) {
  const std::string content = npy_of({1, 2, 3, 4});
  const std::string shorter = npy_of({1, 2, 3});
  const std::string longer = npy_of({1, 2, 3, 4, 5});
  const auto read = [&](const std::string& stream) {
    parse(zip_archive({{.name = "a.npy",
                        .content = content,
                        .compress = true,
                        .data = test::deflated(stream)}}))
        .read("a");
  };
  EXPECT_NO_THROW(read(content));
  // The headers state 4 values; the streams hold 3 and 5.
  expect_bad_input({"unpacked size"}, [&] { read(content.substr(0, content.size() - 4)); });
  expect_bad_input({"unpacked size"}, [&] { read(content + "1234"); });
  expect_bad_input({"npy data"}, [&] { read(shorter + "1234"); });
  expect_bad_input({"npy data"}, [&] { read(longer); });
}

TEST(HostileNpz, DamagedStreams) {
  const std::string content = npy_of({1, 2, 3, 4});
  const auto read = [&](const std::string& data) {
    parse(zip_archive({{.name = "a.npy", .content = content, .compress = true, .data = data}}))
        .read("a");
  };
  const std::string good = test::deflated(content);
  EXPECT_NO_THROW(read(good));
  expect_bad_input({"compressed data"}, [&] { read(std::string(good.size(), '\xff')); });
  expect_bad_input({}, [&] { read(good.substr(0, good.size() / 2)); });
  expect_bad_input({"unpacked size"}, [&] { read(good + "more"); });
}

TEST(HostileNpz, MembersWithoutAnArray) {
  const auto read = [](const std::string& content) {
    parse(zip_archive({{.name = "a.npy", .content = content}})).read("a");
  };
  expect_bad_input({"npy magic", "\"a\"", "x.npz"}, [&] { read(""); });
  expect_bad_input({"npy magic"}, [&] { read("\x93NUMPY"); });
  expect_bad_input({"npy header length"}, [&] { read(std::string("\x93NUMPY\1\0\0\0{}", 12)); });
  expect_bad_input({"npy header length"}, [&] { read(std::string("\x93NUMPY\1\0\1\0{}", 12)); });
  expect_bad_input({"member"}, [&] { read(std::string("\x93NUMPY\1\0\x40\0{}", 12)); });
}

}  // namespace
}  // namespace mainstem
