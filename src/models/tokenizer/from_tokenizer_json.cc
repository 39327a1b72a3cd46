#include <algorithm>
#include <initializer_list>
#include <utility>

#include "io/json.h"
#include "models/tokenizer/json_fields.h"
#include "models/tokenizer/loaders.h"
#include "models/tokenizer/tokenizer_json.h"

namespace mainstem::tokenizer {
namespace {

using nlohmann::json;

int64_t need_id(const json& object, const char* key, const std::string& where) {
  const json* value = member(object, key, where);
  if (value == nullptr || !value->is_number_integer()) {
    throw bad_input(where + "." + key, "an integer id",
                    value == nullptr ? "none" : value->type_name());
  }
  return value->get<int64_t>();
}

/// Everything about one folder while its spec is put together.
class Loader {
 public:
  Loader(std::string_view text, const SideFiles& side)
      : file_(read_tokenizer_json(text)),
        tokenizer_config_(parse_side("tokenizer_config.json", side.tokenizer_config)),
        generation_config_(parse_side("generation_config.json", side.generation_config)),
        config_(parse_side("config.json", side.config)) {}

  std::shared_ptr<const Pipeline> load() {
    check_keys();
    read_model();
    read_added();
    read_normalizer();
    read_pretokenizer();
    read_decoder();
    read_named_ids();
    read_post_processor();
    read_end_ids();
    return build_pipeline(std::move(spec_));
  }

 private:
  static json parse_side(const char* name, const std::string& text) {
    if (text.empty()) return json::object();
    return with_context(name, [&] {
      json object = parse_json(text);
      if (!object.is_object()) throw bad_input(name, "an object", object.type_name());
      return object;
    });
  }

  void check_keys() const {
    // Truncation and padding are wishes of the program that saved the file, not of the model.
    refuse_other_keys(file_.tree,
                      {"version", "truncation", "padding", "added_tokens", "normalizer",
                       "pre_tokenizer", "post_processor", "decoder", "model"},
                      "tokenizer.json");
  }

  void read_model() {
    const json* model = member(file_.tree, "model", "tokenizer.json");
    if (model == nullptr) throw bad_input("tokenizer.json", "a section \"model\"", "none");
    if (const json* type = member(*model, "type", "model"); type != nullptr && *type != "BPE") {
      throw bad_input("model.type", "BPE (byte-level)", quote(type->dump(), 40));
    }
    refuse_other_keys(
        *model,
        {"type", "dropout", "unk_token", "continuing_subword_prefix", "end_of_word_suffix",
         "fuse_unk", "byte_fallback", "ignore_merges", "vocab", "merges"},
        "model");
    for (const char* list : {"vocab", "merges"}) {  // read already; what is left is no list
      const json* rest = member(*model, list, "model");
      if (rest != nullptr) {
        throw bad_input(std::string("model.") + list, "an object of ids, a list of merges",
                        rest->type_name());
      }
    }
    if (const json* dropout = member(*model, "dropout", "model");
        dropout != nullptr && *dropout != 0.0) {
      throw bad_input("model.dropout", "none", dropout->dump());
    }
    for (const char* key : {"continuing_subword_prefix", "end_of_word_suffix"}) {
      const json* affix = member(*model, key, "model");
      if (affix != nullptr && *affix != "") {
        throw bad_input(std::string("model.") + key, "none (byte-level BPE)", affix->dump());
      }
    }
    if (bool_or(*model, "byte_fallback", false, "model")) {
      throw bad_input("model.byte_fallback", "false (byte-level BPE)", "true");
    }
    spec_.ignore_merges = bool_or(*model, "ignore_merges", false, "model");
    spec_.fuse_missing = bool_or(*model, "fuse_unk", false, "model");
    spec_.last_duplicate_merge_wins = true;
    spec_.rules.push_back("model: byte-level BPE (tokenizer.json)");

    // Ids may leave holes, but not so large that the table of tokens outgrows the file.
    const size_t most = file_.vocab.size() * 2 + 65536;
    const auto place = [&](int64_t id, std::string_view text) -> TokenSpec& {
      if (id < 0 || id >= static_cast<int64_t>(most)) {
        throw bad_input("id of token " + quote(text), "0 to " + std::to_string(most - 1),
                        std::to_string(id));
      }
      const auto i = static_cast<size_t>(id);
      if (i >= spec_.tokens.size()) spec_.tokens.resize(i + 1);
      return spec_.tokens[i];
    };
    spec_.tokens.reserve(file_.vocab.size() + 64);
    for (const TokenizerJson::Entry& entry : file_.vocab) {
      const std::string_view text = file_.view(entry.text);
      TokenSpec& token = place(entry.id, text);
      if (token.kind != TokenKind::kAbsent) {
        throw bad_input(
            "model.vocab", "one token per id",
            quote(token.text) + " and " + quote(text) + " with id " + std::to_string(entry.id));
      }
      token = {text, TokenKind::kNormal};
    }
    for (const TokenizerJson::Merge& merge : file_.merges) {
      spec_.merges.push_back({file_.view(merge.left), file_.view(merge.right)});
    }
    if (const json* tokens = member(file_.tree, "added_tokens", "tokenizer.json")) {
      if (!tokens->is_array()) throw bad_input("added_tokens", "an array", tokens->type_name());
      for (const json& token : *tokens) {
        place(need_id(token, "id", "added_tokens"), need_text(token, "content", "added_tokens"));
      }
    }
    if (const json* unknown = member(*model, "unk_token", "model")) {
      if (!unknown->is_string())
        throw bad_input("model.unk_token", "a string", unknown->type_name());
      missing_text_ = unknown->get<std::string>();
    }
  }

  void read_added() {
    const json* tokens = member(file_.tree, "added_tokens", "tokenizer.json");
    const json none = json::array();
    for (const json& object : tokens == nullptr ? none : *tokens) {
      const std::string where = "added_tokens";
      refuse_other_keys(
          object, {"id", "content", "single_word", "lstrip", "rstrip", "normalized", "special"},
          where);
      AddedToken token;
      token.id = need_id(object, "id", where);
      token.content = need_text(object, "content", where);
      token.special = bool_or(object, "special", false, where);
      token.single_word = bool_or(object, "single_word", false, where);
      token.strip_left = bool_or(object, "lstrip", false, where);
      token.strip_right = bool_or(object, "rstrip", false, where);
      token.normalized = bool_or(object, "normalized", !token.special, where);
      spec_.added.push_back(std::move(token));
    }
    for (const AddedToken& token : spec_.added) {  // views: after the vector has stopped growing
      spec_.tokens[static_cast<size_t>(token.id)] = {
          token.content, token.special ? TokenKind::kControl : TokenKind::kUserDefined};
    }
    if (!missing_text_.empty()) spec_.missing_byte_id = id_of(missing_text_);
  }

  void read_normalizer() {
    const json* section = member(file_.tree, "normalizer", "tokenizer.json");
    if (section != nullptr) read_normalizer(*section, 0);
    spec_.rules.push_back(spec_.normalization == Normalization::kNfc
                              ? "normaliser: NFC (tokenizer.json)"
                              : "normaliser: none (tokenizer.json)");
  }

  void read_normalizer(const json& section, int depth) {
    const std::string type = need_text(section, "type", "normalizer");
    if (type == "NFC") {
      spec_.normalization = Normalization::kNfc;
    } else if (type == "Sequence" && depth < 8) {
      for (const json& part : need_array(section, "normalizers", "normalizer")) {
        read_normalizer(part, depth + 1);
      }
    } else {
      throw bad_input("normalizer.type", "null, NFC or a Sequence of these", quote(type));
    }
  }

  void read_pretokenizer() {
    const json* section = member(file_.tree, "pre_tokenizer", "tokenizer.json");
    if (section == nullptr) {
      throw bad_input("pre_tokenizer", "a ByteLevel step (byte-level BPE)", "null");
    }
    spec_.stages = read_stages(*section);
    spec_.rules.push_back("pre-tokenizer: " + std::to_string(spec_.stages.size()) +
                          " steps (tokenizer.json)");
  }

  void read_decoder() const {
    const json* section = member(file_.tree, "decoder", "tokenizer.json");
    if (section == nullptr) return;
    const std::string type = need_text(*section, "type", "decoder");
    if (type != "ByteLevel") throw bad_input("decoder.type", "ByteLevel", quote(type));
  }

  std::optional<int64_t> id_of(std::string_view text) const {
    for (size_t id = 0; id < spec_.tokens.size(); ++id) {
      if (spec_.tokens[id].kind != TokenKind::kAbsent && spec_.tokens[id].text == text) {
        return static_cast<int64_t>(id);
      }
    }
    return std::nullopt;
  }

  /// A token named in tokenizer_config.json, as text or as an object with its text.
  std::optional<int64_t> named_id(const char* key) const {
    const json* value = member(tokenizer_config_, key, "tokenizer_config.json");
    if (value == nullptr) return std::nullopt;
    const std::string text = value->is_string() ? value->get<std::string>()
                                                : need_text(*value, "content", std::string(key));
    return id_of(text);
  }

  void read_named_ids() {
    spec_.bos_id = named_id("bos_token");
    spec_.eos_id = named_id("eos_token");
    spec_.unknown_id = named_id("unk_token");
    spec_.padding_id = named_id("pad_token");
  }

  void read_post_processor() {
    // The rule of transformers 5.24 (TokenizersBackend): flags that stand in tokenizer_config.json
    // replace the post-processor of tokenizer.json.
    const std::string config = "tokenizer_config.json";
    const bool flags = member(tokenizer_config_, "add_bos_token", config) != nullptr ||
                       member(tokenizer_config_, "add_eos_token", config) != nullptr;
    if (flags) {
      const bool bos = bool_or(tokenizer_config_, "add_bos_token", false, config);
      const bool eos = bool_or(tokenizer_config_, "add_eos_token", false, config);
      if (bos && spec_.bos_id) spec_.prefix_ids = {*spec_.bos_id};
      if (eos && spec_.eos_id) spec_.suffix_ids = {*spec_.eos_id};
    } else if (const json* section = member(file_.tree, "post_processor", "tokenizer.json")) {
      read_post_processor(*section, 0);
    }
    const std::string source = flags ? "add_bos_token, add_eos_token in tokenizer_config.json"
                                     : "post_processor of tokenizer.json";
    spec_.rules.push_back("before every text: " + list(spec_.prefix_ids) +
                          "; after it: " + list(spec_.suffix_ids) + " (" + source + ")");
  }

  static std::string list(const std::vector<int64_t>& ids) {
    std::string text;
    for (const int64_t id : ids) text += (text.empty() ? "" : " ") + std::to_string(id);
    return text.empty() ? "nothing" : text;
  }

  void read_post_processor(const json& section, int depth) {
    const std::string where = "post_processor";
    const std::string type = need_text(section, "type", where);
    if (type == "ByteLevel") return;  // moves offsets only
    if (type == "Sequence" && depth < 8) {
      for (const json& part : need_array(section, "processors", where)) {
        read_post_processor(part, depth + 1);
      }
    } else if (type == "TemplateProcessing") {
      read_template(section);
    } else if (type == "RobertaProcessing" || type == "BertProcessing") {
      const auto id = [&](const char* key) {
        const json& pair = need_array(section, key, where);
        if (pair.size() != 2 || !pair[1].is_number_integer()) {
          throw bad_input(where + "." + key, "a token and its id", quote(pair.dump(), 60));
        }
        return pair[1].get<int64_t>();
      };
      spec_.prefix_ids.insert(spec_.prefix_ids.begin(), id("cls"));
      spec_.suffix_ids.push_back(id("sep"));
    } else {
      throw bad_input("post_processor.type",
                      "ByteLevel, TemplateProcessing, RobertaProcessing, BertProcessing or a "
                      "Sequence of these",
                      quote(type));
    }
  }

  void read_template(const json& section) {
    const std::string where = "post_processor.single";
    std::vector<int64_t> before;
    std::vector<int64_t> after;
    int texts = 0;
    for (const json& item : need_array(section, "single", "post_processor")) {
      if (item.is_object() && item.contains("Sequence")) {
        ++texts;
        continue;
      }
      const json* token = member(item, "SpecialToken", where);
      if (token == nullptr) throw bad_input(where, "Sequence or SpecialToken", item.dump());
      const std::string name = need_text(*token, "id", where);
      const json* tokens = member(section, "special_tokens", "post_processor");
      const json* entry = tokens == nullptr ? nullptr : member(*tokens, name.c_str(), where);
      if (entry == nullptr) throw bad_input(where, "a token of special_tokens", quote(name));
      for (const json& id : need_array(*entry, "ids", "post_processor.special_tokens")) {
        if (!id.is_number_integer()) {
          throw bad_input("post_processor.special_tokens", "integer ids", id.type_name());
        }
        (texts == 0 ? before : after).push_back(id.get<int64_t>());
      }
    }
    if (texts != 1) throw bad_input(where, "the text once", std::to_string(texts) + " times");
    spec_.prefix_ids.insert(spec_.prefix_ids.begin(), before.begin(), before.end());
    spec_.suffix_ids.insert(spec_.suffix_ids.end(), after.begin(), after.end());
  }

  void read_end_ids() {
    if (spec_.eos_id) spec_.end_ids.push_back(*spec_.eos_id);
    // What these files say about ids past the tokenizer's (padded rows) does not end anything.
    const auto add = [&](const json& id) {
      if (!id.is_number_integer()) return;
      const auto value = id.get<int64_t>();
      const bool present = value >= 0 && value < static_cast<int64_t>(spec_.tokens.size()) &&
                           spec_.tokens[static_cast<size_t>(value)].kind != TokenKind::kAbsent;
      if (present) spec_.end_ids.push_back(value);
    };
    for (const auto& [object, name] : {std::pair(&generation_config_, "generation_config.json"),
                                       std::pair(&config_, "config.json")}) {
      const json* ids = member(*object, "eos_token_id", name);
      if (ids == nullptr) continue;
      if (ids->is_array()) {
        for (const json& id : *ids) add(id);
      } else {
        add(*ids);
      }
    }
    for (const AddedToken& token : spec_.added) {
      if (token.special && is_known_end(token.content)) spec_.end_ids.push_back(token.id);
    }
  }

  TokenizerJson file_;
  json tokenizer_config_, generation_config_, config_;
  TokenizerSpec spec_;
  std::string missing_text_;
};

}  // namespace

std::shared_ptr<const Pipeline> from_tokenizer_json(std::string_view text, const SideFiles& side) {
  return Loader(text, side).load();
}

}  // namespace mainstem::tokenizer
