#include <algorithm>

#include "models/tokenizer/json_fields.h"
#include "models/tokenizer/json_sections.h"

namespace mainstem::tokenizer {
namespace {

using nlohmann::json;
using Step = DecoderSpec::Step;

constexpr size_t kMaxSteps = 64;

/// Before Fuse a step looks at one token at a time, so its result is known when the file is loaded.
/// After it only the Strip that takes a first space away is known.
class DecoderReader {
 public:
  JsonDecoder read(const json& section) {
    read_section(section, 0);
    const bool more = !result_.spec.steps.empty() || fused_;
    if (alone_ > 1 || (alone_ == 1 && more)) {
      throw bad_input("decoder", "WordPiece or ByteLevel alone, or a Sequence of others", "both");
    }
    return std::move(result_);
  }

 private:
  void read_section(const json& section, int depth) {
    const std::string type = need_text(section, "type", "decoder");
    const std::string where = "decoder " + quote(type, 40);
    if (depth > 8 || result_.spec.steps.size() > kMaxSteps) {
      throw bad_input("decoder", "at most 64 steps, nested 8 deep", "more");
    }
    if (type == "Sequence") {
      refuse_other_keys(section, {"type", "decoders"}, where);
      for (const json& part : need_array(section, "decoders", where)) {
        read_section(part, depth + 1);
      }
    } else if (type == "ByteLevel") {
      refuse_other_keys(section, {"type", "add_prefix_space", "trim_offsets", "use_regex"}, where);
      result_.byte_level = true;
      ++alone_;
    } else if (type == "WordPiece") {
      refuse_other_keys(section, {"type", "prefix", "cleanup"}, where);
      result_.spec.join = DecoderSpec::Join::kWordPiece;
      result_.spec.prefix = text_or(section, "prefix", "##", where);
      result_.spec.cleanup = bool_or(section, "cleanup", true, where);
      ++alone_;
    } else if (type == "Fuse") {
      refuse_other_keys(section, {"type"}, where);
      fused_ = true;
    } else if (type == "Strip") {
      read_strip(section, where);
    } else if (fused_ && (type == "Replace" || type == "ByteFallback" || type == "Metaspace")) {
      throw bad_input("decoder", type + " before Fuse", "after it");
    } else if (type == "Replace") {
      read_replace(section, where);
    } else if (type == "ByteFallback") {
      refuse_other_keys(section, {"type"}, where);
      result_.spec.steps.push_back({.kind = Step::Kind::kBytes});
    } else if (type == "Metaspace") {
      read_metaspace(section, where);
    } else {
      throw bad_input("decoder.type",
                      "Replace, ByteFallback, Fuse, Strip, Metaspace, WordPiece, ByteLevel or a "
                      "Sequence of these",
                      quote(type));
    }
  }

  void read_metaspace(const json& section, const std::string& where) {
    refuse_other_keys(
        section, {"type", "replacement", "str_rep", "add_prefix_space", "prepend_scheme", "split"},
        where);
    const std::string mark = need_character(section, "replacement", where);
    const bool prefix = bool_or(section, "add_prefix_space", true, where) &&
                        text_or(section, "prepend_scheme", "always", where) != "never";
    result_.spec.steps.push_back({.kind = Step::Kind::kReplace, .from = mark, .to = " "});
    if (prefix) result_.spec.lead = mark;
  }

  void read_replace(const json& section, const std::string& where) {
    refuse_other_keys(section, {"type", "pattern", "content"}, where);
    const json* pattern = member(section, "pattern", where);
    if (pattern == nullptr || !pattern->is_object() || !pattern->contains("String")) {
      throw bad_input(where + ".pattern", "{\"String\": …}",
                      pattern == nullptr ? "none" : quote(pattern->dump(), 60));
    }
    result_.spec.steps.push_back({.kind = Step::Kind::kReplace,
                                  .from = need_text(*pattern, "String", where + ".pattern"),
                                  .to = need_text(section, "content", where)});
  }

  void read_strip(const json& section, const std::string& where) {
    refuse_other_keys(section, {"type", "content", "start", "stop"}, where);
    const std::string content = need_character(section, "content", where);
    const int64_t start = int_or(section, "start", 0, where);
    const int64_t stop = int_or(section, "stop", 0, where);
    if (start < 0 || stop < 0) {
      throw bad_input(where, "numbers of characters", std::to_string(std::min(start, stop)));
    }
    if (!fused_) {
      result_.spec.steps.push_back({.kind = Step::Kind::kStrip,
                                    .from = content,
                                    .left = static_cast<size_t>(start),
                                    .right = static_cast<size_t>(stop)});
      return;
    }
    const bool twice = result_.spec.strip_count > 0;
    if (content.size() != 1 || stop != 0 || twice) {
      throw bad_input(where, "after Fuse one ASCII character, at the start of the text",
                      quote(section.dump(), 80));
    }
    result_.spec.strip = content[0];
    result_.spec.strip_count = static_cast<size_t>(start);
  }

  JsonDecoder result_;
  int alone_ = 0;  // decoders that stand alone
  bool fused_ = false;
};

}  // namespace

JsonDecoder read_decoder(const json& section) { return DecoderReader().read(section); }

}  // namespace mainstem::tokenizer
