#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "../../fuzz/tokenizer_target.h"
#include "models/tokenizer_files.h"

namespace mainstem {
namespace {

TEST(TokenizerCorpus, EveryKeptInputIsAnswered) {
  const auto folder =
      std::filesystem::path(MAINSTEM_TEST_DATA).parent_path() / "fuzz" / "corpus" / "tokenizer";
  int count = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    SCOPED_TRACE(entry.path().string());
    const std::string bytes = test::read_file(entry.path());
    fuzz::run_tokenizer(test::as_bytes(bytes));
    // Cut and bent versions of it, too.
    for (size_t length = 0; length < bytes.size(); length += 1 + bytes.size() / 60) {
      fuzz::run_tokenizer(test::as_bytes(std::string_view(bytes).substr(0, length)));
      std::string bent = bytes;
      bent[length] = static_cast<char>(bent[length] ^ 0x15);
      fuzz::run_tokenizer(test::as_bytes(bent));
    }
    ++count;
  }
  EXPECT_GE(count, 15);
}

/// The example in tokenizer.h.
TEST(TokenizerExample, Works) {
  const test::TempDir folder;
  const auto path =
      test::write_file(folder / "model.gguf", test::GgufTokenizer::base().builder().build());
  const auto tokenizer = Tokenizer::load(path);
  const std::vector<int64_t> ids = tokenizer.encode("Hello world");
  std::string pieces;
  for (const int64_t id : ids) pieces += std::to_string(id) + ' ' + tokenizer.piece(id) + '\n';
  EXPECT_EQ(tokenizer.decode(ids), "Hello world");
  EXPECT_EQ(std::ranges::count(pieces, '\n'), static_cast<std::ptrdiff_t>(ids.size()));
}

}  // namespace
}  // namespace mainstem
