#define PCRE2_CODE_UNIT_WIDTH 8
#include "models/tokenizer/pattern.h"

#include <pcre2.h>

#include <algorithm>
#include <cstring>
#include <new>

#include "io/text.h"
#include "mainstem/error.h"

namespace mainstem::tokenizer {
namespace {

constexpr int kMaxKinds = 256;

std::string pcre2_message(int code) {
  PCRE2_UCHAR buffer[256];
  if (pcre2_get_error_message(code, buffer, sizeof buffer) < 0) return std::to_string(code);
  return reinterpret_cast<const char*>(buffer);
}

pcre2_code* as_code(void* code) { return static_cast<pcre2_code*>(code); }
pcre2_match_data* as_data(void* data) { return static_cast<pcre2_match_data*>(data); }
pcre2_match_context* as_context(void* context) {
  return static_cast<pcre2_match_context*>(context);
}

}  // namespace

KindTable::KindTable(const SetPool& pool) : kind_(new uint8_t[kCodePointCount]) {
  const std::vector<CodePointSet>& sets = pool.sets();
  std::vector<uint32_t> cuts = {0, kCodePointCount};
  for (const CodePointSet& set : sets) {
    for (const CodePointRange& range : set.ranges()) {
      cuts.push_back(range.begin);
      cuts.push_back(range.end);
    }
  }
  std::ranges::sort(cuts);
  cuts.erase(std::unique(cuts.begin(), cuts.end()), cuts.end());

  // Between two cuts nothing changes: one signature, the list of sets that hold these points.
  std::vector<size_t> next_range(sets.size(), 0);
  std::vector<uint64_t> signature(sets.size() / 64 + 1);
  for (size_t i = 0; i + 1 < cuts.size(); ++i) {
    std::ranges::fill(signature, 0);
    for (size_t s = 0; s < sets.size(); ++s) {
      const std::vector<CodePointRange>& ranges = sets[s].ranges();
      size_t& next = next_range[s];
      while (next < ranges.size() && ranges[next].end <= cuts[i]) ++next;
      if (next < ranges.size() && ranges[next].begin <= cuts[i]) {
        signature[s / 64] |= uint64_t{1} << (s % 64);
      }
    }
    const auto known = std::ranges::find(in_set_, signature);
    const auto kind = known - in_set_.begin();
    if (known == in_set_.end()) {
      if (kind == kMaxKinds) {
        throw bad_input("pre-tokenizer patterns",
                        "classes that divide the characters into at most 256 kinds", "more");
      }
      in_set_.push_back(signature);
    }
    std::memset(kind_.get() + cuts[i], static_cast<int>(kind), cuts[i + 1] - cuts[i]);
  }
}

std::string KindTable::kinds_of(int set) const {
  std::string kinds;
  for (size_t kind = 0; kind < in_set_.size(); ++kind) {
    if ((in_set_[kind][static_cast<size_t>(set) / 64] >> (set % 64) & 1) != 0)
      kinds.push_back(static_cast<char>(kind));
  }
  return kinds;
}

Pattern::Pattern(const PatternParts& parts, const KindTable& kinds, std::string_view source)
    : source_(source) {
  std::string text;
  const auto put_byte = [&text](uint8_t byte) {
    constexpr char kDigits[] = "0123456789abcdef";
    text += "\\x";
    text += kDigits[byte >> 4];
    text += kDigits[byte & 15];
  };
  for (const PatternPart& part : parts) {
    text += part.syntax;
    if (part.set < 0) continue;
    const std::string members = kinds.kinds_of(part.set);
    if (members.size() == 1) {
      put_byte(static_cast<uint8_t>(members[0]));
      continue;
    }
    text += members.empty() ? "(?:(?!)" : "[";
    for (const char member : members) put_byte(static_cast<uint8_t>(member));
    text += members.empty() ? ")" : "]";
  }

  int error = 0;
  PCRE2_SIZE offset = 0;
  code_ = pcre2_compile(reinterpret_cast<PCRE2_SPTR>(text.data()), text.size(),
                        PCRE2_NEVER_UTF | PCRE2_NEVER_UCP | PCRE2_NEVER_BACKSLASH_C, &error,
                        &offset, nullptr);
  if (code_ == nullptr) {
    throw bad_input("pre-tokenizer pattern", "one that PCRE2 compiles", pcre2_message(error))
        .in("pattern " + quote(source_, 160));
  }
  // Without a just-in-time compiler (or where the system forbids it) the interpreter does.
  jit_ = pcre2_jit_compile(as_code(code_), PCRE2_JIT_COMPLETE) == 0;
}

Pattern::~Pattern() { pcre2_code_free(as_code(code_)); }

Matcher::Matcher()
    : data_(pcre2_match_data_create(1, nullptr)), context_(pcre2_match_context_create(nullptr)) {
  if (data_ == nullptr || context_ == nullptr) {
    pcre2_match_data_free(as_data(data_));
    pcre2_match_context_free(as_context(context_));
    throw std::bad_alloc();
  }
}

Matcher::~Matcher() {
  pcre2_match_data_free(as_data(data_));
  pcre2_match_context_free(as_context(context_));
}

bool Matcher::find(const Pattern& pattern, std::string_view subject, size_t from, size_t& begin,
                   size_t& end) {
  // PCRE2's own limit of ten million steps is below what ten megabytes of spaces need.
  if (subject.size() > limit_for_ || limit_for_ == 0) {
    limit_for_ = std::max<size_t>(subject.size(), 1 << 16);
    const auto steps = std::min<size_t>(limit_for_ * 32, UINT32_MAX);
    pcre2_set_match_limit(as_context(context_), static_cast<uint32_t>(steps));
  }
  const auto* text = reinterpret_cast<PCRE2_SPTR>(subject.data());
  int result = PCRE2_ERROR_JIT_STACKLIMIT;
  if (pattern.jit_) {
    result = pcre2_jit_match(as_code(pattern.code_), text, subject.size(), from, 0, as_data(data_),
                             as_context(context_));
  }
  if (result == PCRE2_ERROR_JIT_STACKLIMIT) {  // the interpreter keeps its state on the heap
    result = pcre2_match(as_code(pattern.code_), text, subject.size(), from, PCRE2_NO_JIT,
                         as_data(data_), as_context(context_));
  }
  if (result == PCRE2_ERROR_NOMATCH) return false;
  if (result < 0) {
    throw bad_input(
        "pre-tokenizer pattern on a text of " + std::to_string(subject.size()) + " characters",
        "a match in a bounded number of steps", pcre2_message(result))
        .in("pattern " + quote(pattern.source_, 160));
  }
  const PCRE2_SIZE* bounds = pcre2_get_ovector_pointer(as_data(data_));
  begin = bounds[0];
  end = bounds[1];
  return true;
}

}  // namespace mainstem::tokenizer
