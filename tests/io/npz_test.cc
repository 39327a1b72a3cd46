#include "mainstem/npz.h"

#include <deque>
#include <string>
#include <vector>

#include "io/atomic_file.h"
#include "io/zip_builder.h"
#include "io/zip_writer.h"

namespace mainstem {
namespace {

using test::expect_bad_input;
using test::expect_error;
using test::npy_of;
using test::zip_archive;
using test::ZipLayout;

NpzFile parse(const std::string& content, const NpzOptions& options = {}) {
  // A file views its bytes; these live until the program ends.
  static std::deque<std::string> kept;
  return NpzFile::from_bytes(test::as_bytes(kept.emplace_back(content)), "x.npz", options);
}

std::vector<float> values_of(const NpzFile& file, std::string_view name) {
  return to_f32(file.read(name).view());
}

TEST(Npz, StoredAndDeflatedMembers) {
  const std::string a = npy_of({1, 2, 3}), b = npy_of(std::vector<float>(1000, 7));
  const NpzFile file = parse(zip_archive({{.name = "blocks.0/q.npy", .content = a},
                                          {.name = "b.npy", .content = b, .compress = true},
                                          {.name = "notes.txt", .content = "x"}}));
  EXPECT_EQ(file.names(), (std::vector<std::string>{"blocks.0/q", "b"}));
  EXPECT_EQ(values_of(file, "blocks.0/q"), (std::vector<float>{1, 2, 3}));
  EXPECT_EQ(values_of(file, "b"), std::vector<float>(1000, 7));
  EXPECT_TRUE(file.has("b"));
  EXPECT_FALSE(file.has("c"));
  EXPECT_EQ(file.path(), "x.npz");
  expect_bad_input({"an array \"c\"", "x.npz"}, [&] { file.read("c"); });
}

TEST(Npz, Zip64AndComment) {
  ZipLayout layout;
  layout.zip64 = true;
  layout.comment = "a comment PK\x05\x06 with a signature inside";
  layout.count = 0xFFFF;
  layout.directory_offset = layout.directory_size = UINT32_MAX;
  const NpzFile file =
      parse(zip_archive({{.name = "a.npy", .content = npy_of({1}), .zip64 = true}}, layout));
  EXPECT_EQ(values_of(file, "a"), std::vector<float>{1});
}

TEST(Npz, EmptyArchive) { EXPECT_TRUE(parse(zip_archive({})).names().empty()); }

TEST(Npz, WriteAndReadBack) {
  const test::TempDir dir;
  const Tensor a = Tensor::from_f32({2, 2}, std::vector<float>{1, 2, 3, 4});
  const Tensor b = Tensor::from_i64({}, std::vector<int64_t>{-5});
  const Tensor none(DType::kBF16, {0, 3});
  write_npz(dir / "x.npz",
            std::vector<NamedTensor>{{"a", a.view()}, {"b/é", b.view()}, {"none", none.view()}});
  const NpzFile file = NpzFile::open(dir / "x.npz");
  EXPECT_EQ(file.names(), (std::vector<std::string>{"a", "b/é", "none"}));
  EXPECT_EQ(file.read("a").shape(), (Shape{2, 2}));
  EXPECT_EQ(values_of(file, "a"), (std::vector<float>{1, 2, 3, 4}));
  EXPECT_EQ(file.read("b/é").as<int64_t>()[0], -5);
  EXPECT_EQ(file.read("none").dtype(), DType::kBF16);
  EXPECT_EQ(dir.file_count(), 1u);
  const std::string first = test::read_file(dir / "x.npz");
  write_npz(dir / "x.npz",
            std::vector<NamedTensor>{{"a", a.view()}, {"b/é", b.view()}, {"none", none.view()}});
  EXPECT_EQ(test::read_file(dir / "x.npz"), first);
}

TEST(Npz, MembersMayBeWrittenOneByOne) {
  const test::TempDir dir;
  const Tensor a = Tensor::from_f32({2, 2}, std::vector<float>{1, 2, 3, 4});
  const Tensor b = Tensor::from_i64({}, std::vector<int64_t>{-5});
  write_npz(dir / "x.npz", std::vector<NamedTensor>{{"b", b.view()}, {"a", a.view()}});
  NpzWriter writer(dir / "y.npz");
  writer.write("b", b.view());
  const Tensor passing = a;
  writer.write("a", passing.view());
  EXPECT_FALSE(std::filesystem::exists(dir / "y.npz")) << "not before finish()";
  writer.finish();
  EXPECT_EQ(test::read_file(dir / "y.npz"), test::read_file(dir / "x.npz"));
  {
    NpzWriter given_up(dir / "z.npz");
    given_up.write("a", a.view());
    expect_error(ErrorCode::kUsage, {"\"a\" twice", "z.npz"},
                 [&] { given_up.write("a", a.view()); });
  }
  EXPECT_EQ(dir.file_count(), 2u);
}

// The records for large files, with the limit moved so that a small file needs them.
TEST(Npz, WriterUsesZip64WhereNeeded) {
  for (const uint64_t limit : {uint64_t{1}, uint64_t{100}, uint64_t{300}}) {
    const test::TempDir dir;
    {
      AtomicFile file(dir / "x.npz");
      ZipWriter zip(file, limit);
      zip.add("a.npy", npy_of({1, 2}), {});
      zip.add("b.npy", npy_of({3}), {});
      zip.finish();
      file.commit();
    }
    const NpzFile file = NpzFile::open(dir / "x.npz");
    EXPECT_EQ(values_of(file, "a"), (std::vector<float>{1, 2}));
    EXPECT_EQ(values_of(file, "b"), std::vector<float>{3});
    const std::string content = test::read_file(dir / "x.npz");
    EXPECT_NE(content.find("PK\x06\x06"), content.npos);
  }
}

TEST(Npz, WriterRefusals) {
  const test::TempDir dir;
  const Tensor a = Tensor::from_f32({1}, std::vector<float>{1});
  const Tensor q(DType::kQ4_0, {32});
  const auto write = [&](const std::vector<NamedTensor>& t) { write_npz(dir / "x.npz", t); };
  expect_error(ErrorCode::kUsage, {"\"a\" twice", "x.npz"},
               [&] { write({{"a", a.view()}, {"a", a.view()}}); });
  expect_error(ErrorCode::kUsage, {"array name"}, [&] { write({{"", a.view()}}); });
  expect_error(ErrorCode::kUsage, {"array name"}, [&] { write({{"\xff", a.view()}}); });
  expect_error(ErrorCode::kUsage, {"q4_0", "\"q\"", "x.npz"}, [&] { write({{"q", q.view()}}); });
  EXPECT_EQ(dir.file_count(), 0u);
}

}  // namespace
}  // namespace mainstem
