#include "models/tokenizer/bert_rules.h"
#include "models/tokenizer/json_fields.h"
#include "models/tokenizer/json_sections.h"

namespace mainstem::tokenizer {
namespace {

using nlohmann::json;

constexpr int kMaxStages = 64;

SplitBehavior read_behavior(const json& object, const std::string& where) {
  const std::string name = need_text(object, "behavior", where);
  if (name == "Removed") return SplitBehavior::kRemoved;
  if (name == "Isolated") return SplitBehavior::kIsolated;
  if (name == "MergedWithPrevious") return SplitBehavior::kMergedWithPrevious;
  if (name == "MergedWithNext") return SplitBehavior::kMergedWithNext;
  if (name == "Contiguous") return SplitBehavior::kContiguous;
  throw bad_input(where + ".behavior",
                  "Removed, Isolated, MergedWithPrevious, MergedWithNext or Contiguous",
                  quote(name));
}

class StageReader {
 public:
  JsonStages read(const json& section) {
    read_section(section, 0);
    return {std::move(stages_), byte_level_};
  }

 private:
  void read_section(const json& section, int depth) {
    const std::string type = need_text(section, "type", "pre_tokenizer");
    const std::string where = "pre_tokenizer " + quote(type, 40);
    if (depth > 8 || stages_.size() > kMaxStages) {
      throw bad_input("pre_tokenizer", "at most 64 steps, nested 8 deep", "more");
    }
    if (type == "Sequence") {
      refuse_other_keys(section, {"type", "pretokenizers"}, where);
      for (const json& part : need_array(section, "pretokenizers", where)) {
        read_section(part, depth + 1);
      }
    } else if (type == "Split") {
      read_split(section, where);
    } else if (type == "Digits") {
      refuse_other_keys(section, {"type", "individual_digits"}, where);
      const bool single = bool_or(section, "individual_digits", false, where);
      add({.pattern = single ? "\\p{N}" : "\\p{N}+"});
    } else if (type == "Punctuation") {
      refuse_other_keys(section, {"type", "behavior"}, where);
      add({.pattern = bert_punctuation_pattern(),
           .behavior = member(section, "behavior", where) == nullptr
                           ? SplitBehavior::kIsolated
                           : read_behavior(section, where)});
    } else if (type == "ByteLevel") {
      read_byte_level(section, where);
    } else if (type == "Metaspace") {
      read_metaspace(section, where);
    } else if (type == "BertPreTokenizer") {
      refuse_other_keys(section, {"type"}, where);
      add({.pattern = "\\s", .behavior = SplitBehavior::kRemoved});
      add({.pattern = bert_punctuation_pattern()});
    } else if (type == "Whitespace") {
      refuse_other_keys(section, {"type"}, where);
      // The words of Rust's regex crate, which have the joiners.
      add({.pattern = R"([\w\x{200c}\x{200d}]+|[^\w\s\x{200c}\x{200d}]+)",
           .behavior = SplitBehavior::kRemoved,
           .invert = true});
    } else if (type == "WhitespaceSplit") {
      refuse_other_keys(section, {"type"}, where);
      add({.pattern = "\\s", .behavior = SplitBehavior::kRemoved});
    } else {
      throw bad_input("pre_tokenizer.type",
                      "one of Sequence, Split, Digits, Punctuation, ByteLevel, Metaspace, "
                      "BertPreTokenizer, Whitespace, WhitespaceSplit",
                      quote(type));
    }
  }

  void read_split(const json& section, const std::string& where) {
    refuse_other_keys(section, {"type", "pattern", "behavior", "invert"}, where);
    const json* pattern = member(section, "pattern", where);
    if (pattern == nullptr || !pattern->is_object() || pattern->size() != 1) {
      throw bad_input(where + ".pattern", "{\"Regex\": …} or {\"String\": …}",
                      pattern == nullptr ? "none" : quote(pattern->dump(), 60));
    }
    SplitStage stage;
    if (pattern->contains("Regex")) {
      stage.pattern = need_text(*pattern, "Regex", where + ".pattern");
    } else {
      stage.pattern = escape_pattern(need_text(*pattern, "String", where + ".pattern"));
    }
    stage.behavior = read_behavior(section, where);
    stage.invert = bool_or(section, "invert", false, where);
    add(std::move(stage));
  }

  void read_byte_level(const json& section, const std::string& where) {
    refuse_other_keys(section, {"type", "add_prefix_space", "trim_offsets", "use_regex"}, where);
    if (byte_level_) throw bad_input("pre_tokenizer", "one ByteLevel step", "two");
    byte_level_ = true;
    if (bool_or(section, "add_prefix_space", true, where)) {
      add({.kind = SplitStage::Kind::kPrefixSpace});
    }
    if (bool_or(section, "use_regex", true, where)) add({.pattern = std::string(kGpt2Pattern)});
    add({.kind = SplitStage::Kind::kToBytes});
  }

  void read_metaspace(const json& section, const std::string& where) {
    refuse_other_keys(
        section, {"type", "replacement", "str_rep", "add_prefix_space", "prepend_scheme", "split"},
        where);
    if (byte_level_) throw bad_input("pre_tokenizer", "Metaspace before ByteLevel", "after it");
    const bool add_prefix = bool_or(section, "add_prefix_space", true, where);
    SplitStage stage = {.kind = SplitStage::Kind::kMarkSpaces,
                        .mark = need_character(section, "replacement", where)};
    const json* scheme = member(section, "prepend_scheme", where);
    if (scheme == nullptr) {
      stage.prepend = add_prefix ? SplitStage::Prepend::kAlways : SplitStage::Prepend::kNever;
    } else if (*scheme == "always") {
      stage.prepend = SplitStage::Prepend::kAlways;
    } else if (*scheme == "first") {
      stage.prepend = SplitStage::Prepend::kFirst;
    } else if (*scheme == "never") {
      stage.prepend = SplitStage::Prepend::kNever;
    } else {
      throw bad_input(where + ".prepend_scheme", "always, first or never",
                      quote(scheme->dump(), 40));
    }
    if (!add_prefix && stage.prepend != SplitStage::Prepend::kNever) {
      throw bad_input(where + ".prepend_scheme", "never, as add_prefix_space is false",
                      quote(scheme->dump(), 40));
    }
    const std::string pattern = escape_pattern(stage.mark);
    add(std::move(stage));
    if (bool_or(section, "split", true, where)) {
      add({.pattern = pattern, .behavior = SplitBehavior::kMergedWithNext});
    }
  }

  void add(SplitStage stage) { stages_.push_back(std::move(stage)); }

  std::vector<SplitStage> stages_;
  bool byte_level_ = false;
};

}  // namespace

JsonStages read_stages(const json& section) {
  JsonStages result = StageReader().read(section);
  // With nothing after it the change of alphabet has no effect.
  std::vector<SplitStage>& stages = result.stages;
  if (!stages.empty() && stages.back().kind == SplitStage::Kind::kToBytes) stages.pop_back();
  return result;
}

}  // namespace mainstem::tokenizer
