#pragma once

#include <array>
#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "models/tokenizer/pattern.h"

namespace mainstem::tokenizer {

/// What becomes of the matches of a split. Meaning: SplitDelimiterBehavior of tokenizers 0.23.3.
enum class SplitBehavior { kRemoved, kIsolated, kMergedWithPrevious, kMergedWithNext, kContiguous };

/// One step of a pre-tokenizer, as data.
struct SplitStage {
  enum class Kind {
    kSplit,        ///< by `pattern`
    kPrefixSpace,  ///< a space before every piece that does not begin with one
    kToBytes,      ///< later stages see one character per byte, that of the byte-level alphabet
    kMarkSpaces,   ///< every space becomes `mark`, and pieces begin with it as `prepend` says
  };
  /// Which pieces get `mark` at their start, if they do not begin with it.
  enum class Prepend { kNever, kFirst, kAlways };
  Kind kind = Kind::kSplit;
  std::string pattern{};
  SplitBehavior behavior = SplitBehavior::kIsolated;
  bool invert = false;                 ///< what lies between the matches counts as matched
  std::string mark{};                  ///< one character
  Prepend prepend = Prepend::kAlways;  ///< kFirst: only the piece where the whole text begins
};

/// The stages for a name in `tokenizer.ggml.pre`. Source: llm_tokenizer_bpe in llama.cpp's
/// src/llama-vocab.cpp. An unknown name is an Error that lists the known ones.
std::vector<SplitStage> known_pretokenizer(std::string_view name);
/// The pattern of GPT-2, which is also ByteLevel's own.
extern const std::string_view kGpt2Pattern;

/// The character that stands for each byte in byte-level vocabularies (GPT-2's encoder.py,
/// bytes_to_unicode), and the way back.
std::array<uint32_t, 256> byte_characters();
std::optional<uint8_t> byte_of_character(uint32_t code_point);

/// A text and its pieces in order, as byte ranges.
struct SplitText {
  struct Piece {
    size_t begin, end;
  };
  std::string text;
  std::vector<Piece> pieces;
};

/// Splits text into the words that the model sees one by one. Immutable; any thread.
class PreTokenizer {
 public:
  explicit PreTokenizer(std::vector<SplitStage> stages);
  /// `at_start`: the text begins where the whole text does. `result` is overwritten; its memory is
  /// used again.
  void split(std::string_view text, bool at_start, Matcher& matcher, SplitText& result) const;

 private:
  struct Compiled {
    SplitStage stage;
    std::unique_ptr<const Pattern> pattern;  ///< of a kSplit stage
  };
  struct State;

  void split_by(const Compiled& compiled, Matcher& matcher, State& state) const;
  void insert_spaces(State& state) const;
  void mark_spaces(const SplitStage& stage, bool at_start, State& state) const;
  void use_bytes(State& state) const;

  std::unique_ptr<const KindTable> kinds_;
  std::vector<Compiled> stages_;
};

}  // namespace mainstem::tokenizer
