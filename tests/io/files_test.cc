// Mapping, atomic writing and the texts of messages.

#include <sys/stat.h>

#include <fstream>
#include <sstream>
#include <string>

#include "io/atomic_file.h"
#include "io/mapped_file.h"
#include "io/test_files.h"
#include "io/text.h"

namespace mainstem {
namespace {

using test::expect_bad_input;

TEST(MappedFile, HoldsTheBytes) {
  const test::TempDir dir;
  const auto file = MappedFile::open(test::write_file(dir / "a", "hello"));
  ASSERT_EQ(file->bytes().size(), 5u);
  EXPECT_EQ(std::to_integer<char>(file->bytes()[4]), 'o');
  EXPECT_EQ(file->path(), (dir / "a").string());
}

TEST(MappedFile, AnEmptyFileHasNoBytes) {
  const test::TempDir dir;
  EXPECT_TRUE(MappedFile::open(test::write_file(dir / "a", ""))->bytes().empty());
}

TEST(MappedFile, WhatIsNoFileIsSaid) {
  const test::TempDir dir;
  expect_bad_input({"a regular file, got a folder", dir.path().string()},
                   [&] { MappedFile::open(dir.path()); });
  expect_bad_input({"No such file", "missing"}, [&] { MappedFile::open(dir / "missing"); });
  // A pipe without a writer must not make open() wait.
  ASSERT_EQ(::mkfifo((dir / "pipe").c_str(), 0600), 0);
  expect_bad_input({"got a pipe"}, [&] { MappedFile::open(dir / "pipe"); });
  expect_bad_input({"got a device"}, [&] { MappedFile::open("/dev/null"); });
}

// Resident kilobytes of the mapping that holds `address`.
long resident_kb(const void* address) {
  std::ifstream smaps("/proc/self/smaps");
  std::string line;
  bool inside = false;
  while (std::getline(smaps, line)) {
    unsigned long begin = 0, end = 0;
    if (std::sscanf(line.c_str(), "%lx-%lx ", &begin, &end) == 2) {
      const auto at = reinterpret_cast<uintptr_t>(address);
      inside = begin <= at && at < end;
    }
    long kb = 0;
    if (inside && std::sscanf(line.c_str(), "Rss: %ld kB", &kb) == 1) return kb;
  }
  return -1;
}

TEST(MappedFile, DroppedPagesLeaveMemoryAndComeBack) {
  const test::TempDir dir;
  const std::string content(1 << 20, 'x');
  const auto file = MappedFile::open(test::write_file(dir / "a", content));
  const auto sum = [&] {
    unsigned total = 0;
    for (const std::byte b : file->bytes()) total += std::to_integer<unsigned>(b);
    return total;
  };
  const unsigned before = sum();
  file->will_need(file->bytes());
  file->sequential(file->bytes());
  ASSERT_GE(resident_kb(file->bytes().data()), 1024);
  file->drop_pages(file->bytes());
  EXPECT_EQ(resident_kb(file->bytes().data()), 0);
  EXPECT_EQ(sum(), before);
  drop_mapped_pages(file->bytes().subspan(100, (1 << 20) - 200));  // whole pages inside only
  EXPECT_EQ(resident_kb(file->bytes().data()), 8);
  EXPECT_EQ(sum(), before);
}

TEST(MappedFile, DroppingForeignMemoryDoesNothing) {
  const test::TempDir dir;
  const auto file = MappedFile::open(test::write_file(dir / "a", "hello"));
  const std::string own(100000, 'y');
  file->drop_pages(test::as_bytes(own));
  drop_mapped_pages(test::as_bytes(own));
  EXPECT_EQ(own, std::string(100000, 'y'));
}

TEST(AtomicFile, AppearsOnCommitOnly) {
  const test::TempDir dir;
  {
    AtomicFile file(dir / "a");
    file.write("hello ");
    file.write("world");
    EXPECT_EQ(file.position(), 11u);
    EXPECT_FALSE(std::filesystem::exists(dir / "a"));
    EXPECT_EQ(dir.file_count(), 1u);  // the temporary one
    file.commit();
  }
  EXPECT_EQ(test::read_file(dir / "a"), "hello world");
  EXPECT_EQ(dir.file_count(), 1u);
}

TEST(AtomicFile, WithoutCommitNothingIsLeft) {
  const test::TempDir dir;
  test::write_file(dir / "a", "old");
  {
    AtomicFile file(dir / "a");
    file.write("new");
  }
  EXPECT_EQ(test::read_file(dir / "a"), "old");
  EXPECT_EQ(dir.file_count(), 1u);
}

TEST(AtomicFile, ReplacesAndWritesAtPlaces) {
  const test::TempDir dir;
  test::write_file(dir / "a", "something old and longer");
  AtomicFile file(dir / "a");
  file.write("ab");
  file.write_at(4, test::as_bytes("ef"));
  file.write_at(2, test::as_bytes("cd"));
  EXPECT_EQ(file.position(), 2u);
  file.commit();
  EXPECT_EQ(test::read_file(dir / "a"), "abcdef");
}

TEST(AtomicFile, PlacesThatCannotBeWritten) {
  const test::TempDir dir;
  expect_bad_input({"none"}, [&] { AtomicFile(dir / "none" / "a"); });
  expect_bad_input({"a regular file"}, [&] { AtomicFile(dir.path()); });
  expect_bad_input({"a regular file"}, [&] { AtomicFile("/dev/null"); });
  EXPECT_EQ(dir.file_count(), 0u);
}

TEST(AtomicFile, AFailedRenameLeavesNothing) {
  const test::TempDir dir;
  AtomicFile file(dir / "a");
  file.write("x");
  std::filesystem::create_directory(dir / "a");  // appears meanwhile
  expect_bad_input({"output"}, [&] { file.commit(); });
  EXPECT_EQ(dir.file_count(), 1u);
}

TEST(Text, Utf8) {
  EXPECT_EQ(valid_utf8_prefix("aé€😀"), std::string("aé€😀").size());
  for (const std::string bad :
       {"\x80", "\xc1\x81", "\xe0\x9f\xbf", "\xed\xa0\x80", "\xf0\x8f\xbf\xbf", "\xf4\x90\x80\x80",
        "\xf5\x80\x80\x80", "\xe2\x82", "\xff"}) {
    EXPECT_EQ(valid_utf8_prefix("ok" + bad), 2u) << quote(bad);
  }
}

TEST(Text, QuoteEscapesAndCuts) {
  EXPECT_EQ(quote("plain"), "\"plain\"");
  EXPECT_EQ(quote("a\n\x1b\xff"), "\"a\\x0a\\x1b\\xff\"");
  EXPECT_EQ(quote("é"), "\"é\"");
  EXPECT_EQ(quote(std::string(1000, 'a'), 5), "\"aaaa…\"");
}

TEST(Text, ContentIsDescribed) {
  EXPECT_EQ(describe_content({}), "an empty file");
  EXPECT_EQ(describe_content(test::as_bytes("GGUF\3")), "a GGUF file");
  EXPECT_EQ(describe_content(test::as_bytes("PK\x03\x04")), "a zip archive (.npz or .pt)");
  EXPECT_EQ(describe_content(test::as_bytes("abc")), "a file that begins with \"abc\"");
}

}  // namespace
}  // namespace mainstem
