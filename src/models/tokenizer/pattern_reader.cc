#include <algorithm>
#include <string>

#include "io/text.h"
#include "mainstem/error.h"
#include "models/tokenizer/pattern.h"

namespace mainstem::tokenizer {
namespace {

constexpr size_t kMaxPatternBytes = 1 << 16;
constexpr int kMaxNesting = 100;
constexpr int kMaxSets = 1024;

class Reader {
 public:
  Reader(std::string_view pattern, SetPool& pool) : text_(pattern), pool_(pool) {}

  PatternParts read() {
    fold_stack_.push_back(false);
    while (!at_end()) read_item();
    if (fold_stack_.size() != 1) fail("\")\"");
    return std::move(parts_);
  }

 private:
  bool at_end() const { return at_ == text_.size(); }
  bool looking_at(std::string_view word) const { return text_.substr(at_).starts_with(word); }
  bool skip(std::string_view word) {
    if (!looking_at(word)) return false;
    at_ += word.size();
    return true;
  }
  bool folding() const { return fold_stack_.back(); }

  [[noreturn]] void fail(const std::string& expected) const {
    throw bad_input("pre-tokenizer pattern", expected + " at byte " + std::to_string(at_),
                    at_end() ? "its end" : quote(text_.substr(at_, 24)))
        .in("pattern " + quote(text_, 160));
  }

  void emit(std::string_view syntax) {
    if (parts_.empty() || parts_.back().set >= 0) parts_.emplace_back();
    parts_.back().syntax += syntax;
  }
  void emit(CodePointSet set) {
    if (parts_.empty() || parts_.back().set >= 0) parts_.emplace_back();
    parts_.back().set = pool_.add(std::move(set));
    if (parts_.back().set >= kMaxSets) fail("at most 1024 different character classes");
  }

  void read_item() {
    const char c = text_[at_];
    switch (c) {
      case '(':
        return read_group_start();
      case ')':
        if (fold_stack_.size() == 1) fail("no \")\" without \"(\"");
        fold_stack_.pop_back();
        ++at_;
        emit(")");
        return read_quantifier();
      case '|':
        ++at_;
        return emit("|");
      case '^':
        ++at_;
        emit("(?:\\A|(?<=");
        emit(CodePointSet::single('\n'));
        return emit(")(?!\\z))");
      case '$':
        ++at_;
        emit("(?=\\z|");
        emit(CodePointSet::single('\n'));
        return emit(")");
      case '[':
        emit(read_class());
        return read_quantifier();
      case '.':
        ++at_;
        emit(CodePointSet::single('\n').complement());
        return read_quantifier();
      case '?':
      case '*':
      case '+':
        fail("something to repeat");
      case '\\': {
        bool one = false;
        CodePointSet set = read_escape(one);
        emit(std::move(set));
        return read_quantifier();
      }
      default:
        read_literal();
        emit(folded(read_literal_, read_literal_));
        return read_quantifier();
    }
  }

  void read_group_start() {
    if (static_cast<int>(fold_stack_.size()) > kMaxNesting) fail("at most 100 nested groups");
    ++at_;
    bool fold = folding();
    if (skip("?i)")) {  // until the end of the group around it
      fold_stack_.back() = true;
      return;
    }
    if (skip("?i:")) {
      fold = true;
      emit("(?:");
    } else if (skip("?-i:")) {
      fold = false;
      emit("(?:");
    } else if (looking_at("?")) {
      bool known = false;
      for (std::string_view kind : {"?:", "?=", "?!", "?<=", "?<!", "?>"}) {
        if (skip(kind)) {
          emit("(" + std::string(kind));
          known = true;
          break;
        }
      }
      if (!known) fail("one of (?: (?= (?! (?<= (?<! (?> (?i: (?i)");
    } else {
      emit("(?:");  // nobody asks for captures
    }
    fold_stack_.push_back(fold);
  }

  void read_quantifier() {
    if (at_end()) return;
    const char c = text_[at_];
    if (c == '?' || c == '*' || c == '+') {
      emit(text_.substr(at_++, 1));
      if (!at_end() && (text_[at_] == '?' || text_[at_] == '+')) emit(text_.substr(at_++, 1));
    } else if (c == '{') {
      size_t end = at_ + 1;
      while (end < text_.size() && (is_digit(text_[end]) || text_[end] == ',')) ++end;
      const std::string_view inside = text_.substr(at_ + 1, end - at_ - 1);
      const bool bounds = !inside.empty() && inside != "," && end < text_.size() &&
                          text_[end] == '}' && std::ranges::count(inside, ',') <= 1;
      if (!bounds) return;  // a literal brace, read by the next item
      emit(inside[0] == ',' ? "{0" + std::string(inside) + "}" : "{" + std::string(inside) + "}");
      at_ = end + 1;
      // {n,m}? is lazy; what {n}? means differs between Oniguruma and the rest.
      if (inside.find(',') != std::string_view::npos && skip("?")) emit("?");
    } else {
      return;
    }
    if (!at_end() && std::string_view("?*+").find(text_[at_]) != std::string_view::npos) {
      fail("one quantifier");
    }
  }

  static bool is_digit(char c) { return c >= '0' && c <= '9'; }

  void read_literal() {
    const DecodedCodePoint decoded = decode_utf8(text_.substr(at_));
    if (!decoded.valid) fail("UTF-8");
    at_ += decoded.length;
    read_literal_ = decoded.code_point;
  }

  CodePointSet folded(uint32_t first, uint32_t last) const {
    CodePointSet set = CodePointSet::range(first, last);
    if (!folding()) return set;
    if (last >= 0x80) fail("only ASCII characters under (?i)");
    for (uint32_t c = first; c <= last; ++c) {
      const uint32_t lower = c | 0x20;
      if (lower < 'a' || lower > 'z') continue;
      set.add(CodePointSet::single(c ^ 0x20));
      if (lower == 's') set.add(CodePointSet::single(0x17F));
      if (lower == 'k') set.add(CodePointSet::single(0x212A));
    }
    return set;
  }

  uint32_t read_hex(size_t least, size_t most) {
    uint32_t value = 0;
    size_t count = 0;
    for (; count < most && !at_end(); ++count, ++at_) {
      const char c = text_[at_];
      const int digit = is_digit(c)            ? c - '0'
                        : c >= 'a' && c <= 'f' ? c - 'a' + 10
                        : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                               : -1;
      if (digit < 0) break;
      value = value * 16 + static_cast<uint32_t>(digit);
    }
    if (count < least) fail("hexadecimal digits");
    if (value >= kCodePointCount) fail("a code point up to 10FFFF");
    return value;
  }

  /// At a backslash. `one` says whether the escape stands for one character, then also in
  /// read_literal_.
  CodePointSet read_escape(bool& one) {
    const size_t start = at_++;
    if (at_end()) fail("a character after \"\\\"");
    one = true;
    const char c = text_[at_];
    const auto literal = [&](uint32_t code_point) {
      ++at_;
      read_literal_ = code_point;
      return folded(code_point, code_point);
    };
    switch (c) {
      case 'n':
        return literal('\n');
      case 'r':
        return literal('\r');
      case 't':
        return literal('\t');
      case 'f':
        return literal('\f');
      case 'v':
        return literal('\v');
      case 'x':
      case 'u': {
        ++at_;
        if (c == 'u') {
          read_literal_ = read_hex(4, 4);
        } else if (skip("{")) {
          read_literal_ = read_hex(1, 6);
          if (!skip("}")) fail("\"}\"");
        } else {
          read_literal_ = read_hex(1, 2);
        }
        return folded(read_literal_, read_literal_);
      }
      default:
        break;
    }
    if (static_cast<unsigned char>(c) >= 0x80) {
      read_literal();
      return folded(read_literal_, read_literal_);
    }
    const bool letter = (c | 0x20) >= 'a' && (c | 0x20) <= 'z';
    if (!letter && !is_digit(c)) return literal(static_cast<unsigned char>(c));
    one = false;
    ++at_;
    switch (c) {
      case 's':
        return CodePointSet::white_space();
      case 'S':
        return CodePointSet::white_space().complement();
      case 'd':
        return CodePointSet::categories(category_mask("Nd"));
      case 'D':
        return CodePointSet::categories(category_mask("Nd")).complement();
      case 'w':
        return word_set();
      case 'W':
        return word_set().complement();
      case 'p':
      case 'P':
        return read_property(c == 'P');
      default:
        at_ = start;
        fail("one of the escapes \\n \\r \\t \\f \\v \\x \\u \\s \\d \\w \\p");
    }
  }

  CodePointSet read_property(bool negated) {
    std::string_view name;
    if (skip("{")) {
      if (skip("^")) negated = !negated;
      const size_t end = text_.find('}', at_);
      if (end == std::string_view::npos) fail("\"}\"");
      name = text_.substr(at_, end - at_);
    } else {
      name = text_.substr(at_, 1);
    }
    const uint32_t mask = category_mask(name);
    if (mask == 0) fail("a general category of Unicode, as in \\p{L} or \\p{Lu}");
    const bool cased = name[0] == 'L' && name != "L" && name != "Lm" && name != "Lo";
    if (folding() && cased) fail("no category of cased letters under (?i)");
    at_ += name.size();
    skip("}");
    const CodePointSet set = CodePointSet::categories(mask);
    return negated ? set.complement() : set;
  }

  /// At "[". Classes inside a class are joined to it, as in Oniguruma.
  CodePointSet read_class() {
    if (++class_depth_ > kMaxNesting) fail("at most 100 nested classes");
    ++at_;
    const bool negated = skip("^");
    CodePointSet set;
    for (bool first = true; first || !looking_at("]"); first = false) {
      if (at_end()) fail("\"]\"");
      if (looking_at("[:")) fail("no [: :] class");
      if (looking_at("&&")) fail("no && in a class");
      if (looking_at("[")) {
        set.add(read_class());
        continue;
      }
      bool one = true;
      CodePointSet item = read_class_character(one);
      const uint32_t low = read_literal_;
      const bool is_range = one && looking_at("-") && at_ + 1 < text_.size() &&
                            text_[at_ + 1] != ']' && text_[at_ + 1] != '[';
      if (is_range) {
        ++at_;
        read_class_character(one);
        if (!one || read_literal_ < low) fail("a range of characters in rising order");
        item = folded(low, read_literal_);
      }
      set.add(item);
    }
    ++at_;
    --class_depth_;
    return negated ? set.complement() : set;
  }

  CodePointSet read_class_character(bool& one) {
    if (looking_at("\\")) return read_escape(one);
    one = true;
    read_literal();
    return folded(read_literal_, read_literal_);
  }

  CodePointSet word_set() const {
    return class_depth_ > 0 ? CodePointSet::word() : CodePointSet::word_outside_class();
  }

  std::string_view text_;
  SetPool& pool_;
  int class_depth_ = 0;
  size_t at_ = 0;
  uint32_t read_literal_ = 0;     // the last single character
  std::vector<char> fold_stack_;  // one per open group: is (?i) on
  PatternParts parts_;
};

}  // namespace

int SetPool::add(CodePointSet set) {
  const auto found = std::ranges::find(sets_, set);
  if (found == sets_.end()) {
    sets_.push_back(std::move(set));
    return static_cast<int>(sets_.size()) - 1;
  }
  return static_cast<int>(found - sets_.begin());
}

PatternParts read_pattern(std::string_view pattern, SetPool& pool) {
  if (pattern.size() > kMaxPatternBytes) {
    throw bad_input("pre-tokenizer pattern", "at most 65536 bytes", std::to_string(pattern.size()));
  }
  return Reader(pattern, pool).read();
}

std::string escape_pattern(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (std::string_view("\\^$.|?*+()[]{}-&").find(c) != std::string_view::npos) out += '\\';
    out += c;
  }
  return out;
}

}  // namespace mainstem::tokenizer
