#include "models/tokenizer/bert_rules.h"

#include <array>
#include <span>

namespace mainstem::tokenizer {
namespace {

struct Run {
  uint32_t first, last;
};

#include "models/tokenizer/bert_tables.inc"

CodePointSet union_of(std::span<const Run> runs) {
  CodePointSet set;
  for (const Run& run : runs) set.add(CodePointSet::range(run.first, run.last));
  return set;
}

/// A set of Unicode 16 as the older tables have it.
CodePointSet corrected(CodePointSet set, std::span<const Run> lacking, std::span<const Run> extra) {
  CodePointSet outside = set.complement();
  outside.add(union_of(lacking));
  set = outside.complement();
  set.add(union_of(extra));
  return set;
}

void append_code_point(uint32_t code_point, std::string& out) {
  constexpr char kDigits[] = "0123456789abcdef";
  out += "\\x{";
  for (int shift = 20; shift >= 0; shift -= 4) out += kDigits[code_point >> shift & 15];
  out += '}';
}

}  // namespace

const CodePointSet& bert_marks() {
  static const CodePointSet kSet =
      corrected(CodePointSet::categories(category_mask("Mn")), kNoMark, kExtraMark);
  return kSet;
}

const CodePointSet& bert_control() {
  static const CodePointSet kSet = [] {
    CodePointSet set =
        CodePointSet::categories(category_mask("Cc") | category_mask("Cf") | category_mask("Co"));
    CodePointSet kept = set.complement();
    for (const char c : {'\t', '\n', '\r'})
      kept.add(CodePointSet::single(static_cast<uint32_t>(c)));
    set = kept.complement();
    set.add(CodePointSet::single(0xFFFD));
    return corrected(std::move(set), kNoControl, kExtraControl);
  }();
  return kSet;
}

const std::string& bert_punctuation_pattern() {
  static const std::string kPattern = [] {
    CodePointSet set = CodePointSet::categories(category_mask("P"));
    for (const char c : {'$', '+', '<', '=', '>', '^', '`', '|', '~'}) {
      set.add(CodePointSet::single(static_cast<uint32_t>(c)));
    }
    set = corrected(std::move(set), kNoPunctuation, kExtraPunctuation);
    std::string pattern = "[";
    for (const CodePointRange& range : set.ranges()) {
      append_code_point(range.begin, pattern);
      pattern += '-';
      append_code_point(range.end - 1, pattern);
    }
    return pattern + "]";
  }();
  return kPattern;
}

bool is_bert_ideograph(uint32_t c) {
  return (c >= 0x4E00 && c <= 0x9FFF) || (c >= 0x3400 && c <= 0x4DBF) ||
         (c >= 0x20000 && c <= 0x2A6DF) || (c >= 0x2A700 && c <= 0x2B73F) ||
         (c >= 0x2B740 && c <= 0x2B81F) || (c >= 0x2B920 && c <= 0x2CEAF) ||
         (c >= 0xF900 && c <= 0xFAFF) || (c >= 0x2F800 && c <= 0x2FA1F);
}

}  // namespace mainstem::tokenizer
