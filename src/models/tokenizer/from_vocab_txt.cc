#include <algorithm>
#include <utility>

#include "io/text.h"
#include "models/tokenizer/bert_rules.h"
#include "models/tokenizer/json_fields.h"
#include "models/tokenizer/loaders.h"

namespace mainstem::tokenizer {
namespace {

using nlohmann::json;

/// One token a line; the id is the number of the line. Readers of the format end lines at \n alone
/// and take white space away at the end of a line.
std::vector<TokenSpec> read_lines(std::string_view text) {
  std::vector<TokenSpec> tokens;
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    line.remove_suffix(white_space_at_end(line));
    if (valid_utf8_prefix(line) != line.size()) {
      throw bad_input("line " + std::to_string(tokens.size() + 1) + " of vocab.txt", "UTF-8",
                      quote(line, 40));
    }
    tokens.push_back({.text = line, .kind = TokenKind::kNormal});
  }
  return tokens;
}

class VocabReader {
 public:
  VocabReader(std::string_view text, const SideFiles& side)
      : config_(parse_side_file(kWhere, side.tokenizer_config)) {
    spec_.model = ModelKind::kWordPiece;
    spec_.tokens = read_lines(text);
    spec_.allow_duplicate_texts = true;
  }

  std::shared_ptr<const Pipeline> load() {
    BertStep step;
    step.lowercase = bool_or(config_, "do_lower_case", true, kWhere);
    step.strip_accents = bool_or(config_, "strip_accents", step.lowercase, kWhere);
    step.split_ideographs = bool_or(config_, "tokenize_chinese_chars", true, kWhere);
    spec_.normalizer = {step};
    spec_.stages = {{.pattern = "\\s", .behavior = SplitBehavior::kRemoved},
                    {.pattern = bert_punctuation_pattern()}};
    spec_.decoder.join = DecoderSpec::Join::kWordPiece;
    spec_.decoder.prefix = "##";
    spec_.decoder.cleanup = true;

    spec_.unknown_id = add_special("unk_token", "[UNK]");
    spec_.padding_id = add_special("pad_token", "[PAD]");
    spec_.bos_id = add_special("cls_token", "[CLS]");
    spec_.eos_id = add_special("sep_token", "[SEP]");
    add_special("mask_token", "[MASK]");
    spec_.missing_id = spec_.unknown_id;
    if (spec_.bos_id) spec_.prefix_ids = {*spec_.bos_id};
    if (spec_.eos_id) spec_.suffix_ids = {*spec_.eos_id};
    spec_.rules = {"model: WordPiece (vocab.txt)",
                   std::string("normaliser: BERT's, ") +
                       (step.lowercase ? "lower case" : "upper case kept") +
                       (step.strip_accents ? " without accents" : "") +
                       " (do_lower_case, strip_accents in tokenizer_config.json, else BERT's own)",
                   "around every text: [CLS] and [SEP]"};
    return build_pipeline(std::move(spec_));
  }

 private:
  static constexpr const char* kWhere = "tokenizer_config.json";

  /// The token that the configuration names so; it is found in the text before anything else.
  std::optional<int64_t> add_special(const char* key, const char* fallback) {
    const json* value = member(config_, key, kWhere);
    const std::string text = value == nullptr || value->is_string()
                                 ? text_or(config_, key, fallback, kWhere)
                                 : need_text(*value, "content", key);
    for (size_t id = spec_.tokens.size(); id-- > 0;) {  // the last of equal lines counts
      TokenSpec& token = spec_.tokens[id];
      if (token.text != text) continue;
      token.kind = TokenKind::kControl;
      spec_.added.push_back({.id = static_cast<int64_t>(id), .content = text, .special = true});
      return static_cast<int64_t>(id);
    }
    return std::nullopt;
  }

  json config_;
  TokenizerSpec spec_;
};

}  // namespace

std::shared_ptr<const Pipeline> from_vocab_txt(std::string_view text, const SideFiles& side) {
  return with_context("vocab.txt", [&] { return VocabReader(text, side).load(); });
}

}  // namespace mainstem::tokenizer
