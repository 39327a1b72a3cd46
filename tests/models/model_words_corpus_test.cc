#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "../../fuzz/model_words_target.h"
#include "io/test_files.h"

namespace mainstem {
namespace {

TEST(ModelWordsCorpus, EveryKeptInputIsAnswered) {
  const auto folder =
      std::filesystem::path(MAINSTEM_TEST_DATA).parent_path() / "fuzz" / "corpus" / "model_words";
  int count = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    SCOPED_TRACE(entry.path().string());
    const std::string bytes = test::read_file(entry.path());
    fuzz::run_model_words(test::as_bytes(bytes));
    // Bent versions of it, too.
    for (size_t at = 0; at < bytes.size(); at += 1 + bytes.size() / 60) {
      for (const char bits : {'\x01', '\x0F', '\x40', '\xFF'}) {
        std::string bent = bytes;
        bent[at] = static_cast<char>(bent[at] ^ bits);
        fuzz::run_model_words(test::as_bytes(bent));
      }
    }
    ++count;
  }
  EXPECT_GE(count, 40);
}

/// The seeds are files that read well, so that mutations start from there.
TEST(ModelWordsCorpus, SeedsReadWell) {
  const auto folder =
      std::filesystem::path(MAINSTEM_TEST_DATA).parent_path() / "fuzz" / "corpus" / "model_words";
  size_t archs = 0, types = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    const std::string name = entry.path().filename().string();
    SCOPED_TRACE(name);
    const std::string bytes = test::read_file(entry.path());
    if (name.starts_with("gguf_")) {
      const auto file = GgufFile::from_bytes(test::as_bytes(bytes), name);
      GgufWords words(file, [&](std::string_view tensor) { return file.find(tensor); });
      EXPECT_EQ(read_spec(family_of(file), words).stack.blocks.size(), 2U);
      ++archs;
    } else if (name.starts_with("config_")) {
      const nlohmann::json config = nlohmann::json::parse(bytes);
      ConfigReader reader(config, name);
      const auto none = [](std::string_view) { return false; };
      EXPECT_EQ(read_spec(family_of(config, name), reader, none).stack.blocks.size(), 2U);
      ++types;
    }
  }
  size_t known_archs = 0, known_families = 0;
  for (const Family& family : families()) {
    known_archs += family.gguf_archs.size();
    known_families += family.model_types.empty() ? 0 : 1;
  }
  EXPECT_GE(archs, known_archs);
  EXPECT_GE(types, known_families);
}

}  // namespace
}  // namespace mainstem
