#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "mainstem/tokenizer.h"

namespace mainstem::tokenizer {

/// How tokens become text again, as data. First each token's text is translated, once, when the
/// tokenizer is loaded; then the translated texts are joined.
struct DecoderSpec {
  /// One step of the translation.
  struct Step {
    enum class Kind {
      kReplace,  ///< every `from` becomes `to`
      kBytes,    ///< "<0x0A>" becomes that byte, and is then left alone
      kStrip,    ///< `from` goes, up to `left` times at the start and `right` times at the end
    };
    Kind kind;
    std::string from{}, to{};
    size_t left = 0, right = 0;
  };
  std::vector<Step> steps;

  enum class Join {
    kPlain,
    kWordPiece,  ///< a space before every token but the first and those that begin with `prefix`
    kSpaces,     ///< a space between all tokens
  };
  Join join = Join::kPlain;
  std::string prefix{};    ///< of kWordPiece; taken away where it stands
  bool cleanup = false;    ///< of kWordPiece: no space before . ? ! , n't 'm 's 've 're
  std::string lead{};      ///< kPlain: the first token loses one byte if its own text begins so
  char strip = ' ';        ///< kPlain: the text loses this at its start,
  size_t strip_count = 0;  ///< … up to so many times
};

/// Applies the steps to a token's text. Error(kBadInput) if it grows more than 64-fold.
std::string translate_token(std::string_view text, const std::vector<DecoderSpec::Step>& steps);

/// The byte that "<0x0A>" stands for, two hexadecimal digits exactly.
std::optional<uint8_t> byte_of_token(std::string_view text);
/// The text of the token for a byte.
std::string byte_token(uint8_t byte);

/// Appends what the next token adds to the text, which will not change any more: `text` is the
/// token's own, `translated` that after the steps.
void append_token(const DecoderSpec& spec, std::string_view text, std::string_view translated,
                  JoinState& state, std::string& out);

}  // namespace mainstem::tokenizer
