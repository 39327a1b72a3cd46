#pragma once

#include <gtest/gtest.h>

#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace mainstem::testing {

/// Whether a document is well-formed, for what the library writes: elements, attributes in double
/// quotes, text, the five predefined entities. No comments, CDATA or declarations.
class XmlChecker {
 public:
  explicit XmlChecker(std::string_view text) : text_(text) {}

  ::testing::AssertionResult check() {
    std::string problem = read();
    if (problem.empty()) return ::testing::AssertionSuccess();
    return ::testing::AssertionFailure()
           << problem << " at byte " << at_ << ": " << text_.substr(at_ > 40 ? at_ - 40 : 0, 80);
  }

 private:
  std::string read() {
    std::vector<std::string> open;
    bool seen_root = false;
    while (at_ < text_.size()) {
      if (text_[at_] != '<') {
        const size_t end = std::min(text_.find('<', at_), text_.size());
        const std::string_view content = text_.substr(at_, end - at_);
        if (std::string problem = check_text(content, "<>"); !problem.empty()) return problem;
        const bool blank = content.find_first_not_of(" \n") == std::string_view::npos;
        if (open.empty() && !blank) return "text outside the root";
        at_ = end;
        continue;
      }
      if (text_.substr(at_, 2) == "</") {
        const size_t end = text_.find('>', at_);
        if (end == std::string_view::npos) return "a tag without an end";
        if (open.empty() || open.back() != text_.substr(at_ + 2, end - at_ - 2)) {
          return "an end tag that closes another element";
        }
        open.pop_back();
        at_ = end + 1;
        continue;
      }
      if (open.empty() && seen_root) return "a second root";
      seen_root = true;
      bool is_empty = false;
      std::string name;
      if (std::string problem = read_tag(name, is_empty); !problem.empty()) return problem;
      if (!is_empty) open.push_back(name);
    }
    return open.empty() && seen_root ? "" : "an element without an end tag";
  }

  std::string read_tag(std::string& name, bool& is_empty) {
    ++at_;
    name = read_name();
    if (name.empty()) return "a tag without a name";
    std::set<std::string> attributes;
    while (at_ < text_.size()) {
      if (text_[at_] == '>') return ++at_, "";
      if (text_.substr(at_, 2) == "/>") return at_ += 2, is_empty = true, "";
      if (text_[at_] != ' ') return "no space before an attribute";
      ++at_;
      const std::string attribute = read_name();
      if (attribute.empty() || !attributes.insert(attribute).second) return "a bad attribute";
      if (text_.substr(at_, 2) != "=\"") return "an attribute without a value";
      at_ += 2;
      const size_t end = text_.find('"', at_);
      if (end == std::string_view::npos) return "a value without an end";
      if (std::string problem = check_text(text_.substr(at_, end - at_), "<"); !problem.empty()) {
        return problem;
      }
      at_ = end + 1;
    }
    return "a tag without an end";
  }

  std::string read_name() {
    const size_t begin = at_;
    while (at_ < text_.size() && (std::isalnum(static_cast<unsigned char>(text_[at_])) != 0 ||
                                  text_[at_] == '-' || text_[at_] == ':')) {
      ++at_;
    }
    return std::string(text_.substr(begin, at_ - begin));
  }

  static std::string check_text(std::string_view text, std::string_view forbidden) {
    if (text.find_first_of(forbidden) != std::string_view::npos) return "a bare < or >";
    for (char c : text) {
      if (static_cast<unsigned char>(c) < 0x20 && c != '\n') return "a control character";
    }
    for (size_t at = text.find('&'); at != std::string_view::npos; at = text.find('&', at + 1)) {
      bool known = false;
      for (const char* entity : {"&amp;", "&lt;", "&gt;", "&quot;", "&apos;"}) {
        known |= text.substr(at).starts_with(entity);
      }
      if (!known) return "a bare &";
    }
    return {};
  }

  std::string_view text_;
  size_t at_ = 0;
};

inline ::testing::AssertionResult is_well_formed(std::string_view xml) {
  return XmlChecker(xml).check();
}

}  // namespace mainstem::testing
