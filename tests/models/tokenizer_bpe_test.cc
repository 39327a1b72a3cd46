// Merging against the plainest form of the rule.
#include <gtest/gtest.h>

#include <map>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "mainstem/tokenizer.h"
#include "models/tokenizer_files.h"

namespace mainstem {
namespace {

using Symbols = std::vector<std::string>;
using Ranks = std::map<std::pair<std::string, std::string>, size_t>;

/// Merges the pair of lowest rank, the leftmost of equals, until there is none.
Symbols merge_plainly(Symbols symbols, const Ranks& ranks) {
  for (;;) {
    size_t best = 0;
    size_t best_rank = ranks.size();
    for (size_t i = 0; i + 1 < symbols.size(); ++i) {
      const auto found = ranks.find({symbols[i], symbols[i + 1]});
      if (found != ranks.end() && found->second < best_rank) {
        best = i;
        best_rank = found->second;
      }
    }
    if (best_rank == ranks.size()) return symbols;
    symbols[best] += symbols[best + 1];
    symbols.erase(symbols.begin() + static_cast<std::ptrdiff_t>(best) + 1);
  }
}

TEST(TokenizerBpe, ShortAndLongWordsMergeByTheRule) {
  const test::GgufTokenizer parts = test::GgufTokenizer::base();
  Ranks ranks;
  for (const std::string& merge : parts.merges) {
    const size_t space = merge.find(' ');
    ranks.emplace(std::pair(merge.substr(0, space), merge.substr(space + 1)), ranks.size());
  }
  const std::string bytes = parts.builder().build();
  const Tokenizer tokenizer =
      Tokenizer::from_gguf(GgufFile::from_bytes(test::as_bytes(bytes), "test.gguf"));

  std::mt19937 random(5);
  constexpr std::string_view kLetters = "eeettthhhaionrsdflcum";
  for (int i = 0; i < 1000; ++i) {
    std::string word(1 + random() % (i % 2 == 0 ? 60 : 400), 'a');
    for (char& c : word) c = kLetters[random() % kLetters.size()];
    Symbols symbols;
    for (const char c : word) symbols.emplace_back(1, c);
    const Symbols expected = merge_plainly(symbols, ranks);
    Symbols got;
    for (const int64_t id : tokenizer.encode(word)) got.emplace_back(tokenizer.token_bytes(id));
    ASSERT_EQ(got, expected) << word;
  }
}

TEST(TokenizerBpe, MegabytesInOneWordTakeSeconds) {
  const test::GgufTokenizer parts = test::GgufTokenizer::base();
  const std::string bytes = parts.builder().build();
  const Tokenizer tokenizer =
      Tokenizer::from_gguf(GgufFile::from_bytes(test::as_bytes(bytes), "test.gguf"));
  for (const std::string unit : {"e", "th", "the"}) {
    std::string word;
    while (word.size() < 2'000'000) word += unit;
    EXPECT_EQ(tokenizer.decode(tokenizer.encode(word)), word);
  }
}

}  // namespace
}  // namespace mainstem
