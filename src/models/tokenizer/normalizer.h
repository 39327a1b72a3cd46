#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "models/tokenizer/pattern.h"
#include "models/tokenizer/unicode_forms.h"

namespace mainstem::tokenizer {

// The steps of a normalizer, as data. Meaning: the normalizers of tokenizers 0.23.3 of the same
// names, and sentencepiece's own (src/normalizer.cc).

struct LowercaseStep {};
/// Takes away the marks (M), as the step StripAccents.
struct StripMarksStep {};
struct ReplaceStep {
  std::string pattern;  ///< in the language of pattern.h
  std::string content;
};
/// Puts `content` before a text that is not empty.
struct PrependStep {
  std::string content;
  bool only_at_start = false;  ///< not after an added token
};
/// Takes white space away at the ends.
struct StripStep {
  bool left = true, right = true;
};
/// BERT's own: control characters go and white space becomes spaces; spaces around ideographs; NFD
/// without nonspacing marks (Mn); lower case.
struct BertStep {
  bool clean_text = true, split_ideographs = true, strip_accents = true, lowercase = true;
};
/// A charsmap as tokenizers applies it: by grapheme clusters of less than six bytes, else by
/// characters, the shortest rule that fits replacing the whole.
struct PrecompiledStep {
  std::string charsmap;
};
/// The normalizer of a SentencePiece model: the longest rule of the charsmap that fits, then
/// spaces.
struct SentencePieceStep {
  std::string charsmap{};  ///< may be empty
  bool add_dummy_prefix = true;
  bool only_at_start = false;  ///< the dummy prefix, not after an added token
  bool remove_extra_whitespaces = true;
  bool escape_whitespaces = true;
  std::vector<std::string> user_defined{};  ///< left as they are
};

using NormalizerStep =
    std::variant<UnicodeForm, LowercaseStep, StripMarksStep, ReplaceStep, PrependStep, StripStep,
                 BertStep, PrecompiledStep, SentencePieceStep>;

/// One step, ready to run. Immutable; any thread.
class NormalizerPass {
 public:
  virtual ~NormalizerPass() = default;
  /// `at_start`: the text begins where the whole text does.
  virtual std::string apply(std::string_view text, bool at_start, Matcher& matcher) const = 0;
};

/// Runs the steps over a text, one after another. Error(kBadInput) if the text grows more than
/// 64-fold: no model's rules do that.
class Normalizer {
 public:
  explicit Normalizer(const std::vector<NormalizerStep>& steps);
  bool empty() const { return passes_.empty(); }
  /// The text itself if there are no steps; else it is in `storage`.
  std::string_view apply(std::string_view text, bool at_start, Matcher& matcher,
                         std::string& storage) const;

 private:
  std::vector<std::unique_ptr<const NormalizerPass>> passes_;
};

}  // namespace mainstem::tokenizer
