// Decoding: whole, in pieces, for tables; and the helpers around it.
#include <gtest/gtest.h>

#include <random>
#include <string>

#include "mainstem/tokenizer.h"
#include "models/tokenizer/unicode.h"
#include "models/tokenizer/unicode_forms.h"
#include "models/tokenizer_files.h"

namespace mainstem {
namespace {

Tokenizer base() {
  static const std::string bytes = test::GgufTokenizer::base().builder().build();
  return Tokenizer::from_gguf(GgufFile::from_bytes(test::as_bytes(bytes), "test.gguf"));
}

std::string random_bytes(std::mt19937& random) {
  // Mostly pieces of UTF-8 sequences, so that broken ones of every kind come up.
  constexpr unsigned char kBytes[] = {'a',  ' ',  0xC2, 0xA0, 0xE2, 0x82, 0xAC, 0xF0, 0x9F, 0x98,
                                      0x80, 0xED, 0xBF, 0xF4, 0x8F, 0x90, 0xC0, 0xFF, 0x00, '\n'};
  std::string text(random() % 12, '\0');
  for (char& c : text) c = static_cast<char>(kBytes[random() % std::size(kBytes)]);
  return text;
}

TEST(TokenizerDecode, AnyBytesComeBack) {
  const Tokenizer tokenizer = base();
  std::mt19937 random(1);
  for (int i = 0; i < 5000; ++i) {
    const std::string text = random_bytes(random);
    const auto ids = tokenizer.encode(text);
    EXPECT_EQ(tokenizer.decode(ids, {.invalid_utf8 = InvalidUtf8::kKeep}), text);
  }
}

TEST(StreamDecoder, PushesJoinedEqualTheWhole) {
  const Tokenizer tokenizer = base();
  std::mt19937 random(2);
  for (const InvalidUtf8 rule : {InvalidUtf8::kReplace, InvalidUtf8::kKeep}) {
    for (const bool skip : {true, false}) {
      const DecodeOptions options = {.skip_special = skip, .invalid_utf8 = rule};
      StreamDecoder decoder(tokenizer, options);
      for (int i = 0; i < 3000; ++i) {
        std::vector<int64_t> ids = tokenizer.encode(random_bytes(random));
        ids.insert(ids.begin() + static_cast<std::ptrdiff_t>(random() % (ids.size() + 1)), 2);
        std::string joined;
        for (const int64_t id : ids) joined += decoder.push(id);
        joined += decoder.finish();
        ASSERT_EQ(joined, tokenizer.decode(ids, options));
      }
    }
  }
}

TEST(StreamDecoder, HoldsBackAnIncompleteCharacter) {
  const Tokenizer tokenizer = base();
  std::vector<int64_t> bytes;
  for (const char* byte : {"\xF0", "\x9F", "\x98", "\x80"}) bytes.push_back(*tokenizer.find(byte));
  StreamDecoder decoder(tokenizer);
  EXPECT_EQ(decoder.push(bytes[0]), "");
  EXPECT_EQ(decoder.push(bytes[1]), "");
  EXPECT_EQ(decoder.push(bytes[2]), "");
  EXPECT_EQ(decoder.push(bytes[3]), "\U0001F600");
  EXPECT_EQ(decoder.finish(), "");
  EXPECT_EQ(decoder.push(bytes[0]), "");
  EXPECT_EQ(decoder.push(*tokenizer.find("a")), "\uFFFDa");
  EXPECT_EQ(decoder.push(bytes[0]), "");
  EXPECT_EQ(decoder.finish(), "\uFFFD");
  EXPECT_EQ(decoder.push(*tokenizer.find("a")), "a");
}

TEST(TokenizerDecode, SkipsControlTokensIfAsked) {
  const Tokenizer tokenizer = base();
  const std::vector<int64_t> ids = tokenizer.encode("<|im_start|>a<|im_end|>");
  EXPECT_EQ(tokenizer.decode(ids), "a");
  EXPECT_EQ(tokenizer.decode(ids, {.skip_special = false}), "<|im_start|>a<|im_end|>");
}

TEST(TokenizerDecode, ChecksIds) {
  const Tokenizer tokenizer = base();
  for (const int64_t id : {int64_t{-1}, tokenizer.vocab_size(), int64_t{1} << 40}) {
    const auto expect = [&](auto&& body) {
      test::expect_error(ErrorCode::kUsage, {"token id", std::to_string(id)}, body);
    };
    expect([&] { tokenizer.decode(std::span(&id, 1)); });
    expect([&] { tokenizer.piece(id); });
    expect([&] { tokenizer.token_bytes(id); });
    expect([&] { tokenizer.is_special(id); });
    expect([&] { StreamDecoder(tokenizer).push(id); });
  }
}

TEST(TokenizerPiece, IsOneLineOfValidText) {
  const Tokenizer tokenizer = base();
  const auto piece = [&](std::string_view bytes) {
    return tokenizer.piece(*tokenizer.find(bytes));
  };
  EXPECT_EQ(piece("a"), "a");
  EXPECT_EQ(piece(" "), " ");
  EXPECT_EQ(piece("\n"), "\\n");
  EXPECT_EQ(piece("\t"), "\\t");
  EXPECT_EQ(piece("\\"), "\\\\");
  EXPECT_EQ(piece("\x1B"), "\\x1B");
  EXPECT_EQ(piece("\x7F"), "\\x7F");
  EXPECT_EQ(piece("\xE2"), "\\xE2");
  for (int64_t id = 0; id < tokenizer.vocab_size(); ++id) {
    const std::string text = tokenizer.piece(id);
    EXPECT_EQ(tokenizer::replace_invalid_utf8(text), text);
    EXPECT_EQ(text.find('\n'), std::string::npos);
  }
}

TEST(TokenizerUnicode, ReplacesEachMaximalBrokenPart) {
  // The examples of Unicode 16, section 3.9, tables 3-8 to 3-11; R is U+FFFD.
  const auto shown = [](std::string_view bytes) {
    std::string text = tokenizer::replace_invalid_utf8(bytes);
    for (size_t at; (at = text.find("\uFFFD")) != std::string::npos;) text.replace(at, 3, "R");
    return text;
  };
  EXPECT_EQ(shown("\xC0\xAF\xE0\x80\xBF\xF0\x81\x82\x41"), "RRRRRRRRA");
  EXPECT_EQ(shown("\xED\xA0\x80\xED\xBF\xBF\xED\xAF\x41"), "RRRRRRRRA");
  EXPECT_EQ(shown("\xF4\x91\x92\x93\xFF\x41\x80\xBF\x42"), "RRRRRARRB");
  EXPECT_EQ(shown("\xE1\x80\xE2\xF0\x91\x92\xF1\xBF\x41"), "RRRRA");
  EXPECT_EQ(shown(""), "");
  EXPECT_EQ(shown("é漢\U0001F600"), "é漢\U0001F600");
}

TEST(TokenizerNormalizer, ComposesAndOrdersMarks) {
  EXPECT_EQ(tokenizer::to_nfc("cafe\u0301"), "caf\u00E9");
  EXPECT_EQ(tokenizer::to_nfc("\u212B"), "\u00C5");
  EXPECT_EQ(tokenizer::to_nfc("q\u0307\u0323"), "q\u0323\u0307");
  EXPECT_EQ(tokenizer::to_nfc("\u1100\u1161\u11A8"), "\uAC01");
  EXPECT_EQ(tokenizer::to_nfc("\u0958"), "\u0915\u093C");  // excluded from composition
  EXPECT_EQ(tokenizer::to_nfc("e\xFF\u0301"), "e\xFF\u0301");
  EXPECT_EQ(tokenizer::to_nfc("\xE2\x82"), "\xE2\x82");
  // A long run of marks out of order: sorted, and not in quadratic time.
  std::string marks = "q";
  for (int i = 0; i < 500'000; ++i) marks += "\u0307\u0323";
  std::string sorted = "q";
  for (int i = 0; i < 500'000; ++i) sorted += "\u0323";
  for (int i = 0; i < 500'000; ++i) sorted += "\u0307";
  EXPECT_EQ(tokenizer::to_nfc(marks), tokenizer::to_nfc(sorted));
}

}  // namespace
}  // namespace mainstem
