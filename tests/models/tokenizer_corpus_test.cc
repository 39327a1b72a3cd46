#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "../../fuzz/tokenizer_target.h"
#include "models/tokenizer_files.h"

namespace mainstem {
namespace {

template <typename Run>
void run_corpus(const char* name, int at_least, Run&& run) {
  const auto folder =
      std::filesystem::path(MAINSTEM_TEST_DATA).parent_path() / "fuzz/corpus" / name;
  int count = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    SCOPED_TRACE(entry.path().string());
    const std::string bytes = test::read_file(entry.path());
    run(test::as_bytes(bytes));
    // Cut and bent versions of it, too.
    for (size_t length = 0; length < bytes.size(); length += 1 + bytes.size() / 60) {
      run(test::as_bytes(std::string_view(bytes).substr(0, length)));
      std::string bent = bytes;
      bent[length] = static_cast<char>(bent[length] ^ 0x15);
      run(test::as_bytes(bent));
    }
    ++count;
  }
  EXPECT_GE(count, at_least);
}

TEST(TokenizerCorpus, EveryKeptInputIsAnswered) {
  run_corpus("tokenizer", 15, fuzz::run_tokenizer);
  run_corpus("sentencepiece", 5, fuzz::run_sentencepiece);
  run_corpus("vocab_txt", 3, fuzz::run_vocab_txt);
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
