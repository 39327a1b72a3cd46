#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "models/tokenizer/unicode.h"

// Pre-tokenizer patterns in three steps. A pattern is read once and every character class in it
// becomes a set of Unicode 16 code points. All sets of a tokenizer together divide the code
// points into at most 256 kinds that no pattern tells apart. Text is mapped to one byte per code
// point, its kind, and PCRE2 runs over these bytes with plain byte classes: no Unicode tables of
// the system, no invalid UTF-8, one bitmap test per character.

namespace mainstem::tokenizer {

/// The distinct sets of all patterns of one tokenizer.
class SetPool {
 public:
  /// The index of the set; equal sets share one.
  int add(CodePointSet set);
  const std::vector<CodePointSet>& sets() const { return sets_; }

 private:
  std::vector<CodePointSet> sets_;
};

/// A pattern with its classes taken out: syntax, set, syntax, set, …
struct PatternPart {
  std::string syntax;
  int set = -1;  ///< index into the pool, -1 for none; stands after the syntax
};
using PatternParts = std::vector<PatternPart>;

/// Reads the Oniguruma (Ruby) syntax of tokenizer.json as far as tokenizers use it: literals,
/// classes with union and negation, \s \d \w \p{category} and their opposites, groups,
/// lookaround, (?i), quantifiers, ^ and $ at lines. Anything else is an Error that names it.
/// Under (?i) only ASCII letters fold, with U+017F and U+212A as Unicode has it.
PatternParts read_pattern(std::string_view pattern, SetPool& pool);

/// A pattern that matches `text` as it stands.
std::string escape_pattern(std::string_view text);

/// Which kind each code point is.
class KindTable {
 public:
  explicit KindTable(const SetPool& pool);
  uint8_t operator[](uint32_t code_point) const { return kind_[code_point]; }
  /// The kinds that make up a set of the pool, rising.
  std::string kinds_of(int set) const;

 private:
  std::unique_ptr<uint8_t[]> kind_;            // [0x110000]
  std::vector<std::vector<uint64_t>> in_set_;  // [kind], a bit per set
};

/// A pattern ready to run over kinds. Safe to use from several threads, each with a Matcher.
class Pattern {
 public:
  Pattern(const PatternParts& parts, const KindTable& kinds, std::string_view source);
  ~Pattern();
  Pattern(const Pattern&) = delete;
  Pattern& operator=(const Pattern&) = delete;

 private:
  friend class Matcher;
  void* code_ = nullptr;  // pcre2_code
  bool jit_ = false;
  std::string source_;  // for messages
};

/// The scratch memory of matching; one per thread and call.
class Matcher {
 public:
  Matcher();
  ~Matcher();
  Matcher(const Matcher&) = delete;
  Matcher& operator=(const Matcher&) = delete;

  /// The leftmost match at or after `from`; false if there is none. The subject's ends are the
  /// ends of the text for lookaround. Error if the pattern needs more than a multiple of the
  /// subject's length in steps: a pattern that backtracks without bound.
  bool find(const Pattern& pattern, std::string_view subject, size_t from, size_t& begin,
            size_t& end);

 private:
  void* data_;     // pcre2_match_data
  void* context_;  // pcre2_match_context
  size_t limit_for_ = 0;
};

}  // namespace mainstem::tokenizer
