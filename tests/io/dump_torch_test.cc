// Files that PyTorch 2.13 wrote (tests/generators/make_dumps.py).

#include <set>
#include <string>

#include "io/dump_values.h"

namespace mainstem {
namespace {

using test::dump_path;
using test::expect_tensor;
using test::expected_dumps;

void expect_file(const std::string& name) {
  SCOPED_TRACE(name);
  const Dump dump = Dump::open(dump_path(name));
  EXPECT_EQ(dump.format(), DumpFormat::kTorch);
  const auto& expected = expected_dumps()[name];
  std::set<std::string> names;
  for (const DumpTensor& tensor : dump.tensors()) {
    names.insert(tensor.name);
    EXPECT_FALSE(tensor.printed);
    EXPECT_EQ(tensor.occurrence, 0);
    ASSERT_TRUE(expected.contains(tensor.name)) << tensor.name;
    expect_tensor(dump, tensor, expected[tensor.name]);
    EXPECT_EQ(dump.find(tensor.name), &tensor);
  }
  EXPECT_EQ(names.size(), expected.size());
}

TEST(DumpTorch, ContainersTypesAndViews) {
  expect_file("tree.pt");
  const Dump dump = Dump::open(dump_path("tree.pt"));
  EXPECT_NE(dump.find("hidden_states.2"), nullptr);
  EXPECT_NE(dump.find("layers.1.0"), nullptr);
  EXPECT_EQ(dump.find("hidden_states"), nullptr);
  ASSERT_EQ(dump.left_out().size(), 1u);
  EXPECT_THAT(dump.left_out()[0], testing::HasSubstr("\"complex\" has the type complex64"));
}

TEST(DumpTorch, Protocol5) { expect_file("protocol5.pt"); }
TEST(DumpTorch, WithoutChecksums) { expect_file("no_checksums.pt"); }
TEST(DumpTorch, BigEndian) { expect_file("big_endian.pt"); }
TEST(DumpTorch, LoneTensorIsNamedByItsFile) { expect_file("lone.pt"); }
TEST(DumpTorch, OlderForm) { expect_file("legacy.pt"); }

TEST(DumpTorch, ValuesOutliveTheFirstCopyOfTheDump) {
  std::vector<Dump> kept;
  {
    const Dump dump = Dump::open(dump_path("small.pt"));
    kept.push_back(dump);
  }
  expect_tensor(kept[0], *kept[0].find("b"), expected_dumps()["small.pt"]["b"]);
}

TEST(DumpTorch, DamageIsFoundByTheChecksum) {
  const test::TempDir folder;
  std::string content = test::read_file(dump_path("small.pt"));
  const Dump good = Dump::from_bytes(test::as_bytes(content), "x.pt");
  const std::vector<float> values = to_f32(good.read(*good.find("a")).view());
  const size_t at = content.find(std::string(reinterpret_cast<const char*>(values.data()), 16));
  ASSERT_NE(at, content.npos);
  content[at] ^= 1;
  const Dump dump = Dump::from_bytes(test::as_bytes(content), "x.pt");
  test::expect_bad_input({"checksum", "\"a\"", "x.pt"}, [&] { dump.read(*dump.find("a")); });
}

TEST(DumpTorch, EveryTruncationIsAnError) {
  for (const char* name : {"small.pt", "legacy.pt"}) {
    const std::string content = test::read_file(dump_path(name));
    for (size_t size = 0; size < content.size(); ++size) {
      test::expect_bad_input(
          {"x.pt"}, [&] { Dump::from_bytes(test::as_bytes(content).first(size), "x.pt"); });
    }
    const std::string longer = content + "x";
    test::expect_bad_input({"x.pt"}, [&] { Dump::from_bytes(test::as_bytes(longer), "x.pt"); });
  }
}

}  // namespace
}  // namespace mainstem
