#include "models/tokenizer/normalizer.h"

#include <algorithm>
#include <cctype>
#include <type_traits>
#include <utility>

#include "models/tokenizer/bert_rules.h"
#include "models/tokenizer/charsmap.h"
#include "models/tokenizer/normalizer_output.h"
#include "models/tokenizer/sentencepiece_normalizer.h"
#include "models/tokenizer/unicode.h"

namespace mainstem::tokenizer {
namespace {

const CodePointSet& white_space() {
  static const CodePointSet kSet = CodePointSet::white_space();
  return kSet;
}

/// Calls visit(code point, its bytes) for every character.
template <typename Visit>
void for_each_character(std::string_view text, Visit&& visit) {
  while (!text.empty()) {
    const DecodedCodePoint next = decode_utf8(text);
    visit(next, text.substr(0, next.length));
    text.remove_prefix(next.length);
  }
}

/// The text without the characters of a set.
std::string without(std::string_view text, const CodePointSet& set) {
  std::string out;
  out.reserve(text.size());
  for_each_character(text, [&](const DecodedCodePoint& next, std::string_view bytes) {
    if (!next.valid || !set.contains(next.code_point)) out += bytes;
  });
  return out;
}

/// A pass that is a function of text and step alone.
template <typename Step>
class SimplePass final : public NormalizerPass {
 public:
  explicit SimplePass(Step step) : step_(std::move(step)) {}
  std::string apply(std::string_view text, bool at_start, Matcher&) const override {
    return run(step_, text, at_start);
  }

 private:
  static std::string run(UnicodeForm form, std::string_view text, bool) {
    return to_form(text, form);
  }
  static std::string run(LowercaseStep, std::string_view text, bool) { return to_lower(text); }
  static std::string run(StripMarksStep, std::string_view text, bool) {
    static const CodePointSet kMarks = CodePointSet::categories(category_mask("M"));
    return without(text, kMarks);
  }
  static std::string run(const PrependStep& step, std::string_view text, bool at_start) {
    if (text.empty() || (step.only_at_start && !at_start)) return std::string(text);
    return step.content + std::string(text);
  }
  static std::string run(const StripStep& step, std::string_view text, bool) {
    if (step.left) text.remove_prefix(white_space_at_start(text));
    if (step.right) text.remove_suffix(white_space_at_end(text));
    return std::string(text);
  }

  Step step_;
};

/// "String" patterns of tokenizer.json come here escaped, so there is one kind of pattern.
class ReplacePass final : public NormalizerPass {
 public:
  explicit ReplacePass(const ReplaceStep& step) : content_(step.content) {
    SetPool pool;
    const PatternParts parts = read_pattern(step.pattern, pool);
    literal_ = literal_of(step.pattern);
    if (!literal_.empty()) return;
    kinds_ = std::make_unique<KindTable>(pool);
    pattern_ = std::make_unique<Pattern>(parts, *kinds_, step.pattern);
  }

  std::string apply(std::string_view text, bool, Matcher& matcher) const override {
    NormalizerOutput out(text);
    if (pattern_ == nullptr) {
      size_t done = 0;
      for (size_t at = 0; (at = text.find(literal_, done)) != text.npos;
           done = at + literal_.size()) {
        out.append(text.substr(done, at - done));
        out.append(content_);
      }
      out.append(text.substr(done));
      return out.take();
    }
    std::string kinds;  // one per character
    for_each_character(text, [&](const DecodedCodePoint& next, std::string_view) {
      kinds.push_back(static_cast<char>((*kinds_)[next.code_point]));
    });
    size_t at_byte = 0;
    size_t at_unit = 0;
    const auto advance_to = [&](size_t unit) {
      const size_t before = at_byte;
      for (; at_unit < unit; ++at_unit) at_byte += decode_utf8(text.substr(at_byte)).length;
      return text.substr(before, at_byte - before);
    };
    size_t begin = 0;
    size_t end = 0;
    for (size_t from = 0; from < kinds.size(); from = std::max(end, begin + 1)) {
      if (!matcher.find(*pattern_, kinds, from, begin, end)) break;
      if (end == begin) continue;
      out.append(advance_to(begin));
      advance_to(end);
      out.append(content_);
    }
    out.append(text.substr(at_byte));
    return out.take();
  }

 private:
  /// The text that a pattern without any syntax stands for; empty if it has some.
  static std::string literal_of(std::string_view pattern) {
    std::string text;
    for (size_t i = 0; i < pattern.size(); ++i) {
      if (std::string_view("\\^$.|?*+()[]{}").find(pattern[i]) != std::string_view::npos) {
        const bool escaped = pattern[i] == '\\' && i + 1 < pattern.size() &&
                             !std::isalnum(static_cast<unsigned char>(pattern[i + 1]));
        if (!escaped) return {};
        ++i;
      }
      text += pattern[i];
    }
    return text;
  }

  std::string content_, literal_;
  std::unique_ptr<const KindTable> kinds_;
  std::unique_ptr<const Pattern> pattern_;  // none: `literal_` is looked for
};

class BertPass final : public NormalizerPass {
 public:
  explicit BertPass(const BertStep& step) : step_(step) {}
  std::string apply(std::string_view text, bool, Matcher&) const override {
    std::string result = clean(text);
    if (step_.strip_accents) {
      result = without(to_form(result, UnicodeForm::kNfd), bert_marks());
    }
    return step_.lowercase ? to_lower(result) : result;
  }

 private:
  std::string clean(std::string_view text) const {
    std::string out;
    out.reserve(text.size());
    for_each_character(text, [&](const DecodedCodePoint& next, std::string_view bytes) {
      const uint32_t c = next.code_point;
      if (step_.clean_text) {
        if (bert_control().contains(c)) return;
        if (white_space().contains(c)) {
          out += ' ';
          return;
        }
      }
      if (step_.split_ideographs && is_bert_ideograph(c)) {
        out += ' ';
        out += bytes;
        out += ' ';
      } else {
        out += bytes;
      }
    });
    return out;
  }

  BertStep step_;
};

class PrecompiledPass final : public NormalizerPass {
 public:
  explicit PrecompiledPass(const PrecompiledStep& step) : map_(step.charsmap) {}
  std::string apply(std::string_view text, bool, Matcher&) const override {
    NormalizerOutput out(text);
    while (!text.empty()) {
      const std::string_view cluster = text.substr(0, grapheme_length(text));
      text.remove_prefix(cluster.size());
      if (cluster.size() < 6) {
        if (const auto match = map_.shortest(cluster)) {
          out.append(match->replacement);
          continue;
        }
      }
      for_each_character(cluster, [&](const DecodedCodePoint&, std::string_view bytes) {
        const auto match = map_.shortest(bytes);
        out.append(match ? match->replacement : bytes);
      });
    }
    return out.take();
  }

 private:
  Charsmap map_;
};

std::unique_ptr<const NormalizerPass> make_pass(const NormalizerStep& step) {
  return std::visit(
      [](const auto& kind) -> std::unique_ptr<const NormalizerPass> {
        using Step = std::decay_t<decltype(kind)>;
        if constexpr (std::is_same_v<Step, ReplaceStep>) {
          return std::make_unique<ReplacePass>(kind);
        } else if constexpr (std::is_same_v<Step, BertStep>) {
          return std::make_unique<BertPass>(kind);
        } else if constexpr (std::is_same_v<Step, PrecompiledStep>) {
          return std::make_unique<PrecompiledPass>(kind);
        } else if constexpr (std::is_same_v<Step, SentencePieceStep>) {
          return std::make_unique<SentencePiecePass>(kind);
        } else {
          return std::make_unique<SimplePass<Step>>(kind);
        }
      },
      step);
}

}  // namespace

Normalizer::Normalizer(const std::vector<NormalizerStep>& steps) {
  for (const NormalizerStep& step : steps) passes_.push_back(make_pass(step));
}

std::string_view Normalizer::apply(std::string_view text, bool at_start, Matcher& matcher,
                                   std::string& storage) const {
  for (const auto& pass : passes_) {
    storage = pass->apply(text, at_start, matcher);
    text = storage;
  }
  return text;
}

}  // namespace mainstem::tokenizer
