// Folders of shards, among them the reports F11 (an index that disagrees) and F23 (no weights).

#include <string>
#include <vector>

#include "io/test_files.h"
#include "mainstem/safetensors.h"

namespace mainstem {
namespace {

using test::expect_bad_input;
using test::TempDir;

class SafetensorsFolderTest : public testing::Test {
 protected:
  void shard(const std::string& name, const std::vector<std::string>& tensors) {
    const Tensor value = Tensor::from_f32({1}, std::vector<float>{1});
    std::vector<NamedTensor> named;
    for (const std::string& tensor : tensors) named.push_back({tensor, value.view()});
    write_safetensors(dir / name, named);
  }
  void index(const std::string& weight_map) {
    test::write_file(dir / "model.safetensors.index.json",
                     "{\"metadata\":{\"total_size\":8},\"weight_map\":" + weight_map + "}");
  }
  SafetensorsFolder open() { return open_safetensors_folder(dir.path()); }

  TempDir dir;
};

TEST_F(SafetensorsFolderTest, OneFile) {
  shard("model.safetensors", {"a", "b"});
  const SafetensorsFolder folder = open();
  ASSERT_EQ(folder.tensors().size(), 2u);
  EXPECT_EQ(folder.view("b").count(), 1);
  EXPECT_EQ(folder.find("c"), nullptr);
  expect_bad_input({"\"c\"", dir.path().string()}, [&] { folder.view("c"); });
}

TEST_F(SafetensorsFolderTest, TheOnlyFileOfAnotherName) {
  shard("weights.safetensors", {"a"});
  const SafetensorsFolder folder = open();
  EXPECT_EQ(folder.files().size(), 1u);
}

TEST_F(SafetensorsFolderTest, Shards) {
  shard("model-00001-of-00002.safetensors", {"b", "c"});
  shard("model-00002-of-00002.safetensors", {"a"});
  index(R"({"a":"model-00002-of-00002.safetensors","b":"model-00001-of-00002.safetensors",)"
        R"("c":"model-00001-of-00002.safetensors"})");
  SafetensorsFolder folder = open();
  const SafetensorsFolder moved = std::move(folder);
  ASSERT_EQ(moved.tensors().size(), 3u);
  EXPECT_EQ(moved.tensors()[0]->name, "b");
  EXPECT_EQ(moved.tensors()[2]->name, "a");
  EXPECT_THAT(std::string(moved.find("a")->file), testing::HasSubstr("00002-of"));
  EXPECT_TRUE(moved.warnings().empty());
}

TEST_F(SafetensorsFolderTest, F11_AllDifferencesAtOnce) {
  shard("one.safetensors", {"a", "moved", "surplus"});
  shard("two.safetensors", {"b"});
  index(R"({"a":"one.safetensors","moved":"two.safetensors","absent":"two.safetensors",)"
        R"("b":"two.safetensors","c":"old-00001-of-00002.safetensors",)"
        R"("d":"old-00002-of-00002.safetensors"})");
  expect_bad_input({"files missing: old-00001-of-00002.safetensors, old-00002-of-00002.safetensors",
                    "tensors missing in their file: \"absent\" (two.safetensors), \"moved\"",
                    "tensors in another file: \"moved\" (index: two.safetensors, found in "
                    "one.safetensors)",
                    "tensors not in the index: \"surplus\" (one.safetensors)", dir.path().string()},
                   [&] { open(); });
}

TEST_F(SafetensorsFolderTest, F11_LongListsAreCut) {
  std::string map = "{";
  for (int i = 0; i < 50; ++i) {
    map += (i == 0 ? "\"" : ",\"") + std::to_string(i) + "\":\"none.safetensors\"";
  }
  shard("one.safetensors", {});
  index(map + ",\"x\":\"one.safetensors\",\"y\":\"z.safetensors\"}");
  expect_bad_input({"files missing: none.safetensors, z.safetensors;", "\"x\" (one.safetensors)"},
                   [&] { open(); });
}

TEST_F(SafetensorsFolderTest, F11_FilesThatTheIndexDoesNotKnowAreAWarning) {
  shard("one.safetensors", {"a"});
  shard("other.safetensors", {"a"});
  index(R"({"a":"one.safetensors"})");
  const SafetensorsFolder folder = open();
  EXPECT_EQ(folder.files().size(), 1u);
  ASSERT_EQ(folder.warnings().size(), 1u);
  EXPECT_THAT(folder.warnings()[0], testing::HasSubstr("other.safetensors"));
}

TEST_F(SafetensorsFolderTest, F11_SeveralFilesWithoutAnIndex) {
  shard("one.safetensors", {"a"});
  shard("two.safetensors", {"b"});
  expect_bad_input({"model.safetensors.index.json", "one.safetensors, two.safetensors"},
                   [&] { open(); });
}

TEST_F(SafetensorsFolderTest, NamesWithPathPartsAreRefused) {
  shard("one.safetensors", {"a"});
  for (const std::string name : {"../one.safetensors", "/etc/passwd", "sub/one.safetensors", "..",
                                 ".", "", "a\\\\b", "a\\u0000b"}) {
    index("{\"a\":\"" + name + "\"}");
    expect_bad_input({"without path parts", "\"a\"", "index.json"}, [&] { open(); });
  }
}

TEST_F(SafetensorsFolderTest, IndexOfAnotherForm) {
  shard("one.safetensors", {"a"});
  for (const std::string content : {"[]", "{}", "{\"weight_map\":[]}", "null"}) {
    test::write_file(dir / "model.safetensors.index.json", content);
    expect_bad_input({"an object weight_map", "index.json"}, [&] { open(); });
  }
  index("{\"a\":1}");
  expect_bad_input({"file names", "number"}, [&] { open(); });
  index("{\"a\":\"one.safetensors\",\"a\":\"one.safetensors\"}");
  expect_bad_input({"\"a\" twice"}, [&] { open(); });
}

TEST_F(SafetensorsFolderTest, F3_ATruncatedShardIsNamed) {
  shard("model.safetensors", {"a"});
  std::filesystem::resize_file(dir / "model.safetensors",
                               std::filesystem::file_size(dir / "model.safetensors") - 1);
  expect_bad_input({"1 bytes are missing", "model.safetensors"}, [&] { open(); });
}

TEST_F(SafetensorsFolderTest, F23_OnlyOtherWeights) {
  test::write_file(dir / "config.json", "{}");
  test::write_file(dir / "pytorch_model.bin", "x");
  test::write_file(dir / "tf_model.h5", "x");
  expect_bad_input({"got only pytorch_model.bin, tf_model.h5", dir.path().string(), "convert"},
                   [&] { open(); });
}

TEST_F(SafetensorsFolderTest, F23_NothingThere) {
  expect_bad_input({"an empty folder"}, [&] { open(); });
  test::write_file(dir / "config.json", "{}");
  expect_bad_input({"only config.json"}, [&] { open(); });
  expect_bad_input({"nothing of that name"}, [&] { open_safetensors_folder(dir / "none"); });
  expect_bad_input({"something else"}, [&] { open_safetensors_folder(dir / "config.json"); });
}

}  // namespace
}  // namespace mainstem
