// The way of patterns: reading, character kinds, matching.
#define PCRE2_CODE_UNIT_WIDTH 8
#include <gtest/gtest.h>
#include <pcre2.h>

#include <chrono>
#include <string>
#include <vector>

#include "io/test_files.h"
#include "models/tokenizer/pattern.h"
#include "models/tokenizer/pretokenizer.h"

namespace mainstem::tokenizer {
namespace {

using test::expect_bad_input;
using Strings = std::vector<std::string>;

Strings split_all(const std::vector<SplitStage>& stages, const std::string& text) {
  const PreTokenizer pretokenizer(stages);
  Matcher matcher;
  SplitText result;
  pretokenizer.split(text, /*at_start=*/true, matcher, result);
  Strings pieces;
  for (const auto& piece : result.pieces) {
    pieces.push_back(result.text.substr(piece.begin, piece.end - piece.begin));
  }
  return pieces;
}

Strings split(const std::string& pattern, const std::string& text,
              SplitBehavior behavior = SplitBehavior::kIsolated) {
  return split_all({{.pattern = pattern, .behavior = behavior}}, text);
}

/// What the pattern leaves when its matches are removed.
Strings rest(const std::string& pattern, const std::string& text) {
  return split(pattern, text, SplitBehavior::kRemoved);
}

TEST(TokenizerPattern, ReadsTheSyntaxOfTokenizers) {
  EXPECT_EQ(split("b", "abc"), (Strings{"a", "b", "c"}));
  EXPECT_EQ(split("[^ab]", "abc"), (Strings{"ab", "c"}));
  EXPECT_EQ(split("[a-c]+", "xabcabx"), (Strings{"x", "abcab", "x"}));
  EXPECT_EQ(split("[]x]", "a]x"), (Strings{"a", "]", "x"}));
  EXPECT_EQ(split("[a[bc]]+", "xabcx"), (Strings{"x", "abc", "x"}));
  EXPECT_EQ(split("[\\d\\-]+", "a1-2b"), (Strings{"a", "1-2", "b"}));
  EXPECT_EQ(split("[+-]", "a-b"), (Strings{"a", "-", "b"}));
  EXPECT_EQ(split("\\p{Lu}\\p{^Lu}\\P{Lu}", "xAbcD"), (Strings{"x", "Abc", "D"}));
  EXPECT_EQ(split("\\x41\\x{42}\\u0043", "xABCx"), (Strings{"x", "ABC", "x"}));
  EXPECT_EQ(split("a{2}", "aaaaa"), (Strings{"aa", "aa", "a"}));
  EXPECT_EQ(split("a{,2}b", "aaab"), (Strings{"a", "aab"}));
  EXPECT_EQ(split("a{b", "xa{b"), (Strings{"x", "a{b"}));
  EXPECT_EQ(split("a+?", "aa"), (Strings{"a", "a"}));
  EXPECT_EQ(split("a++b|a", "aab"), (Strings{"aab"}));
  EXPECT_EQ(split("(?i:a)b", "AbABab"), (Strings{"Ab", "AB", "ab"}));
  EXPECT_EQ(split("(?i:s)", "a\u017Fb"), (Strings{"a", "\u017F", "b"}));
  EXPECT_EQ(split("(?i)a(?-i:b)", "AbAB"), (Strings{"Ab", "AB"}));
  EXPECT_EQ(split("(a|b)c", "acbc"), (Strings{"ac", "bc"}));
  EXPECT_EQ(split("(?<=a)b(?=c)", "abcbc"), (Strings{"a", "b", "cbc"}));
  EXPECT_EQ(split("(?<!a)b(?!c)", "abbbc"), (Strings{"ab", "b", "bc"}));
  EXPECT_EQ(split("^.", "ab\ncd"), (Strings{"a", "b\n", "c", "d"}));
  EXPECT_EQ(split(".$", "ab\ncd"), (Strings{"a", "b", "\nc", "d"}));
  EXPECT_EQ(split("x*", "axb"), (Strings{"a", "x", "b"}));  // empty matches are none
  EXPECT_EQ(split("[^\\s\\S]", "ab"), (Strings{"ab"}));     // a class without members
  EXPECT_EQ(split(escape_pattern("a.b[\\"), "xa.b[\\axb"), (Strings{"x", "a.b[\\", "axb"}));
  EXPECT_EQ(split(escape_pattern("漢-字"), "漢-字漢"), (Strings{"漢-字", "漢"}));
}

TEST(TokenizerPattern, NamesWhatItDoesNotRead) {
  for (const char* pattern : {"(",   ")",     "a)",       "(?<name>a)",  "(?#c)",        "(?m:a)",
                              "[a",  "[z-a]", "[a&&b]",   "[[:alpha:]]", "\\",           "\\q",
                              "\\b", "\\1",   "\\p{Han}", "\\p{",        "\\x{110000}",  "\\u12",
                              "*a",  "a**",   "a{2}?",    "(?i:\u00e9)", "(?i:\\p{Lu})", "a\xFF"}) {
    expect_bad_input({"pre-tokenizer pattern"}, [&] { split(pattern, "a"); });
  }
  expect_bad_input({"PCRE2"}, [] { split("(?<=a+)b", "a"); });
  expect_bad_input({"100 nested"}, [] { split(std::string(5000, '('), "a"); });
  expect_bad_input({"100 nested"}, [] { split(std::string(5000, '['), "a"); });
  expect_bad_input({"65536"}, [] { split(std::string(70000, 'a'), "a"); });
  std::string many;
  for (int i = 0; i < 300; ++i) append_utf8(0x4E00u + static_cast<uint32_t>(i), many);
  expect_bad_input({"256 kinds"}, [&] { split(many, "a"); });
}

/// All code points of a class, by PCRE2's own tables.
std::vector<bool> pcre2_members(const char* pattern) {
  int error = 0;
  PCRE2_SIZE offset = 0;
  pcre2_code* code = pcre2_compile(reinterpret_cast<PCRE2_SPTR>(pattern), PCRE2_ZERO_TERMINATED,
                                   PCRE2_UTF | PCRE2_UCP, &error, &offset, nullptr);
  pcre2_match_data* data = pcre2_match_data_create(1, nullptr);
  std::vector<bool> members(kCodePointCount);
  for (uint32_t c = 0; c < kCodePointCount; ++c) {
    if (c >= 0xD800 && c < 0xE000) continue;
    std::string text;
    append_utf8(c, text);
    members[c] = pcre2_match(code, reinterpret_cast<PCRE2_SPTR>(text.data()), text.size(), 0, 0,
                             data, nullptr) > 0;
  }
  pcre2_match_data_free(data);
  pcre2_code_free(code);
  return members;
}

TEST(TokenizerPattern, ClassesAgreeWithPcre2WhereItKnowsTheCodePoint) {
  const std::vector<bool> unassigned = pcre2_members("\\p{Cn}");
  for (const char* pattern : {"\\p{L}", "\\p{Lu}", "\\p{M}", "\\p{N}", "\\p{Nd}", "\\p{P}",
                              "\\p{S}", "\\p{Z}", "\\p{C}", "\\s", "\\d"}) {
    SetPool pool;
    const PatternParts parts = read_pattern(pattern, pool);
    const CodePointSet& set = pool.sets()[static_cast<size_t>(parts[0].set)];
    const KindTable kinds(pool);
    const std::string inside = kinds.kinds_of(parts[0].set);
    const std::vector<bool> expected = pcre2_members(pattern);
    int differences = 0;
    for (uint32_t c = 0; c < kCodePointCount; ++c) {
      if (c >= 0xD800 && c < 0xE000) continue;
      ASSERT_EQ(inside.find(static_cast<char>(kinds[c])) != std::string::npos, set.contains(c));
      if (!unassigned[c] && set.contains(c) != expected[c]) ++differences;
    }
    // A handful of code points has changed category since Unicode 14.
    EXPECT_LE(differences, 8) << pattern;
  }
}

TEST(TokenizerPattern, UnicodeIs16OnEverySystem) {
  // Assigned in Unicode 16, 15.1 and 15: letters and a digit.
  for (const char* text : {"\U00010D4A", "\U0002EBF0", "\U00011F04"}) {
    EXPECT_EQ(rest("\\p{L}", text), Strings{}) << text;
  }
  EXPECT_EQ(rest("\\p{Nd}", "\U00010D40"), Strings{});
}

TEST(TokenizerPattern, BehaviorsAsInTokenizers) {
  using enum SplitBehavior;
  EXPECT_EQ(split("-", "the-final--countdown", kRemoved), (Strings{"the", "final", "countdown"}));
  EXPECT_EQ(split("-", "the-final--countdown", kIsolated),
            (Strings{"the", "-", "final", "-", "-", "countdown"}));
  EXPECT_EQ(split("-", "the-final--countdown", kMergedWithPrevious),
            (Strings{"the-", "final-", "-", "countdown"}));
  EXPECT_EQ(split("-", "the-final--countdown", kMergedWithNext),
            (Strings{"the", "-final", "-", "-countdown"}));
  EXPECT_EQ(split("-", "the-final--countdown", kContiguous),
            (Strings{"the", "-", "final", "--", "countdown"}));
}

TEST(TokenizerPattern, LaterStagesSeeOnePieceAtATime) {
  EXPECT_EQ(split_all({{.pattern = "\\p{N}"}, {.pattern = std::string(kGpt2Pattern)}}, "a   42"),
            (Strings{"a", "   ", "4", "2"}));
  EXPECT_EQ(split(std::string(kGpt2Pattern), "a   42"), (Strings{"a", "  ", " 42"}));
}

TEST(TokenizerPattern, BytesThatAreNotUtf8StayInTheText) {
  const std::string text = "ab\xFF\xC3(\xE2\x82 \xED\xA0\x80 c";
  std::string joined;
  for (const std::string& piece : split(std::string(kGpt2Pattern), text)) joined += piece;
  EXPECT_EQ(joined, text);
  // Such a byte counts as a symbol, one at a time.
  EXPECT_EQ(split("\\p{S}", "a\xE2\x82z"), (Strings{"a", "\xE2", "\x82", "z"}));
}

TEST(TokenizerPattern, LongRunsTakeLinearTime) {
  const auto start = std::chrono::steady_clock::now();
  constexpr size_t kBytes = 2'000'000;
  Matcher matcher;
  SplitText result;
  for (const char* name : {"gpt2", "llama-bpe", "qwen2", "smollm", "falcon"}) {
    const PreTokenizer pretokenizer(known_pretokenizer(name));
    for (const std::string unit : {"a", " ", "\n", "1", "!", "'", " \n", "\xFF", "\u00A0", "漢"}) {
      std::string text;
      while (text.size() < kBytes) text += unit;
      pretokenizer.split(text, /*at_start=*/true, matcher, result);
      size_t total = 0;
      for (const auto& piece : result.pieces) total += piece.end - piece.begin;
      EXPECT_EQ(total, text.size()) << name << ' ' << unit;
    }
  }
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
  // About 4 s for all fifty; steps in the square of the length would take hours.
  EXPECT_LT(seconds.count(), 120);
}

TEST(TokenizerPattern, ExponentialPatternsEndInAnError) {
  expect_bad_input({"bounded number of steps", "(a|aa)+(b|c)"},
                   [] { split("(a|aa)+(b|c)", std::string(5000, 'a')); });
}

TEST(TokenizerPattern, DeepGroupsDoNotNeedTheStack) {
  EXPECT_EQ(split("(?:a|b)+", std::string(1'000'000, 'a')).size(), 1u);
  EXPECT_EQ(split("(?:(?:a|b)c?)+d|.", std::string(200'000, 'a') + "d").size(), 1u);
}

}  // namespace
}  // namespace mainstem::tokenizer
