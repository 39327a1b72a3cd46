#include <cstdint>

#include "models/tokenizer/json_fields.h"
#include "models/tokenizer/json_sections.h"

namespace mainstem::tokenizer {
namespace {

using nlohmann::json;

constexpr size_t kMaxSteps = 64;

/// The bytes of a base64 text (RFC 4648, padded).
std::string decode_base64(std::string_view text, const std::string& where) {
  const auto value_of = [](char c) -> int {
    if (c >= 'A' && c <= 'Z') return c - 'A';
    if (c >= 'a' && c <= 'z') return c - 'a' + 26;
    if (c >= '0' && c <= '9') return c - '0' + 52;
    if (c == '+') return 62;
    return c == '/' ? 63 : -1;
  };
  const size_t given = text.size();
  while (!text.empty() && text.ends_with('=') && given - text.size() < 2) text.remove_suffix(1);
  std::string bytes;
  uint32_t bits = 0;
  int count = 0;
  for (const char c : text) {
    const int value = value_of(c);
    if (value < 0) throw bad_input(where, "base64", quote({&c, 1}));
    bits = bits << 6 | static_cast<uint32_t>(value);
    count += 6;
    if (count >= 8) {
      count -= 8;
      bytes += static_cast<char>(bits >> count & 0xFF);
    }
  }
  if (given % 4 != 0) {
    throw bad_input(where, "base64 of a length divisible by 4", std::to_string(given));
  }
  return bytes;
}

class NormalizerReader {
 public:
  std::vector<NormalizerStep> read(const json& section) {
    read_section(section, 0);
    return std::move(steps_);
  }

 private:
  void read_section(const json& section, int depth) {
    const std::string type = need_text(section, "type", "normalizer");
    const std::string where = "normalizer " + quote(type, 40);
    if (depth > 8 || steps_.size() > kMaxSteps) {
      throw bad_input("normalizer", "at most 64 steps, nested 8 deep", "more");
    }
    if (type == "Sequence") {
      refuse_other_keys(section, {"type", "normalizers"}, where);
      for (const json& part : need_array(section, "normalizers", where)) {
        read_section(part, depth + 1);
      }
    } else if (type == "Replace") {
      read_replace(section, where);
    } else if (type == "Prepend") {
      refuse_other_keys(section, {"type", "prepend"}, where);
      steps_.push_back(PrependStep{.content = need_text(section, "prepend", where)});
    } else if (type == "Strip") {
      refuse_other_keys(section, {"type", "strip_left", "strip_right"}, where);
      steps_.push_back(StripStep{.left = bool_or(section, "strip_left", true, where),
                                 .right = bool_or(section, "strip_right", true, where)});
    } else if (type == "BertNormalizer") {
      read_bert(section, where);
    } else if (type == "Precompiled") {
      refuse_other_keys(section, {"type", "precompiled_charsmap"}, where);
      // Some files have the step without a charsmap.
      const std::string text = text_or(section, "precompiled_charsmap", "", where);
      if (!text.empty()) {
        steps_.push_back(PrecompiledStep{decode_base64(text, where + ".precompiled_charsmap")});
      }
    } else {
      refuse_other_keys(section, {"type"}, where);
      steps_.push_back(plain_step(type));
    }
  }

  static NormalizerStep plain_step(const std::string& type) {
    if (type == "NFC") return UnicodeForm::kNfc;
    if (type == "NFD") return UnicodeForm::kNfd;
    if (type == "NFKC") return UnicodeForm::kNfkc;
    if (type == "NFKD") return UnicodeForm::kNfkd;
    if (type == "Lowercase") return LowercaseStep{};
    if (type == "StripAccents") return StripMarksStep{};
    throw bad_input("normalizer.type",
                    "null, NFC, NFD, NFKC, NFKD, Lowercase, StripAccents, Strip, Replace, Prepend, "
                    "BertNormalizer, Precompiled or a Sequence of these",
                    quote(type));
  }

  void read_replace(const json& section, const std::string& where) {
    refuse_other_keys(section, {"type", "pattern", "content"}, where);
    const json* pattern = member(section, "pattern", where);
    if (pattern == nullptr || !pattern->is_object() || pattern->size() != 1) {
      throw bad_input(where + ".pattern", "{\"Regex\": …} or {\"String\": …}",
                      pattern == nullptr ? "none" : quote(pattern->dump(), 60));
    }
    ReplaceStep step;
    step.content = need_text(section, "content", where);
    if (pattern->contains("Regex")) {
      step.pattern = need_text(*pattern, "Regex", where + ".pattern");
    } else {
      step.pattern = escape_pattern(need_text(*pattern, "String", where + ".pattern"));
    }
    steps_.push_back(std::move(step));
  }

  void read_bert(const json& section, const std::string& where) {
    refuse_other_keys(section,
                      {"type", "clean_text", "handle_chinese_chars", "strip_accents", "lowercase"},
                      where);
    BertStep step;
    step.clean_text = bool_or(section, "clean_text", true, where);
    step.split_ideographs = bool_or(section, "handle_chinese_chars", true, where);
    step.lowercase = bool_or(section, "lowercase", true, where);
    step.strip_accents = bool_or(section, "strip_accents", step.lowercase, where);
    steps_.push_back(step);
  }

  std::vector<NormalizerStep> steps_;
};

}  // namespace

std::vector<NormalizerStep> read_normalizer(const json& section) {
  return NormalizerReader().read(section);
}

}  // namespace mainstem::tokenizer
