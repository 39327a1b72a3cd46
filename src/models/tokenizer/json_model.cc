#include <cmath>

#include "models/tokenizer/json_fields.h"
#include "models/tokenizer/json_sections.h"

namespace mainstem::tokenizer {
namespace {

using nlohmann::json;

int64_t need_id(const json& object, const char* key, const std::string& where) {
  if (member(object, key, where) == nullptr) {
    throw bad_input(where + "." + key, "an integer id", "none");
  }
  return int_or(object, key, 0, where);
}

class ModelReader {
 public:
  ModelReader(const TokenizerJson& file, TokenizerSpec& spec) : file_(file), spec_(spec) {}

  void read() {
    const json* model = member(file_.tree, "model", "tokenizer.json");
    if (model == nullptr) throw bad_input("tokenizer.json", "a section \"model\"", "none");
    for (const char* list : {"vocab", "merges"}) {  // read already; what is left is no list
      const json* rest = member(*model, list, "model");
      if (rest != nullptr) {
        throw bad_input(std::string("model.") + list, "an object of ids, a list of merges",
                        rest->type_name());
      }
    }
    const std::string type = text_or(*model, "type", "BPE", "model");
    if (type != "BPE" && type != "Unigram" && type != "WordPiece") {
      throw bad_input("model.type", "BPE, Unigram or WordPiece", quote(type, 40));
    }
    if ((type == "Unigram") != file_.has_scores && !file_.vocab.empty()) {
      throw bad_input("model.vocab of a " + type + " model",
                      type == "Unigram" ? "a list of [text, score]" : "an object of ids",
                      type == "Unigram" ? "an object" : "a list");
    }
    read_tokens();
    if (type == "BPE") read_bpe(*model);
    if (type == "Unigram") read_unigram(*model);
    if (type == "WordPiece") read_word_piece(*model);
    read_added();
    if (!missing_text_.empty()) spec_.missing_id = id_of(missing_text_);
    spec_.rules.push_back("model: " + type + " (tokenizer.json)");
  }

 private:
  void read_bpe(const json& model) {
    refuse_other_keys(
        model,
        {"type", "dropout", "unk_token", "continuing_subword_prefix", "end_of_word_suffix",
         "fuse_unk", "byte_fallback", "ignore_merges", "vocab", "merges"},
        "model");
    if (const json* dropout = member(model, "dropout", "model");
        dropout != nullptr && *dropout != 0.0) {
      throw bad_input("model.dropout", "none", dropout->dump());
    }
    for (const char* key : {"continuing_subword_prefix", "end_of_word_suffix"}) {
      const json* affix = member(model, key, "model");
      if (affix != nullptr && *affix != "") {
        throw bad_input(std::string("model.") + key, "none", affix->dump());
      }
    }
    spec_.model = ModelKind::kBpe;
    spec_.byte_fallback = bool_or(model, "byte_fallback", false, "model");
    spec_.ignore_merges = bool_or(model, "ignore_merges", false, "model");
    spec_.fuse_missing = bool_or(model, "fuse_unk", false, "model");
    spec_.last_duplicate_merge_wins = true;
    missing_text_ = text_or(model, "unk_token", "", "model");
    for (const TokenizerJson::Merge& merge : file_.merges) {
      spec_.merges.push_back({file_.view(merge.left), file_.view(merge.right)});
    }
  }

  void read_unigram(const json& model) {
    refuse_other_keys(model, {"type", "unk_id", "byte_fallback", "vocab"}, "model");
    refuse_merges("Unigram");
    spec_.model = ModelKind::kUnigram;
    spec_.byte_fallback = bool_or(model, "byte_fallback", false, "model");
    spec_.fuse_missing = true;
    spec_.allow_duplicate_texts = true;
    if (member(model, "unk_id", "model") == nullptr) return;
    const int64_t id = need_id(model, "unk_id", "model");
    if (id < 0 || id >= static_cast<int64_t>(file_.vocab.size())) {
      throw bad_input("model.unk_id", "an id below " + std::to_string(file_.vocab.size()),
                      std::to_string(id));
    }
    spec_.missing_id = id;
    spec_.tokens[static_cast<size_t>(id)].kind = TokenKind::kUnknown;
  }

  void read_word_piece(const json& model) {
    refuse_other_keys(
        model,
        {"type", "unk_token", "continuing_subword_prefix", "max_input_chars_per_word", "vocab"},
        "model");
    refuse_merges("WordPiece");
    spec_.model = ModelKind::kWordPiece;
    missing_text_ = text_or(model, "unk_token", "[UNK]", "model");
    spec_.continuing_prefix = text_or(model, "continuing_subword_prefix", "##", "model");
    spec_.max_word_characters = int_or(model, "max_input_chars_per_word", 100, "model");
  }

  void refuse_merges(const char* type) const {
    if (file_.merges.empty()) return;
    throw bad_input("model.merges", std::string("none in a ") + type + " model",
                    std::to_string(file_.merges.size()));
  }

  /// Ids may leave holes, but not so large that the table of tokens outgrows the file.
  TokenSpec& place(int64_t id, std::string_view text) {
    const size_t most = file_.vocab.size() * 2 + 65536;
    if (id < 0 || id >= static_cast<int64_t>(most)) {
      throw bad_input("id of token " + quote(text), "0 to " + std::to_string(most - 1),
                      std::to_string(id));
    }
    const auto i = static_cast<size_t>(id);
    if (i >= spec_.tokens.size()) spec_.tokens.resize(i + 1);
    return spec_.tokens[i];
  }

  void read_tokens() {
    spec_.tokens.reserve(file_.vocab.size() + 64);
    for (const TokenizerJson::Entry& entry : file_.vocab) {
      const std::string_view text = file_.view(entry.text);
      TokenSpec& token = place(entry.id, text);
      if (token.kind != TokenKind::kAbsent) {
        throw bad_input(
            "model.vocab", "one token per id",
            quote(token.text) + " and " + quote(text) + " with id " + std::to_string(entry.id));
      }
      token = {.text = text, .kind = TokenKind::kNormal, .score = entry.score};
    }
  }

  void read_added() {
    const json* tokens = member(file_.tree, "added_tokens", "tokenizer.json");
    if (tokens == nullptr) return;
    const std::string where = "added_tokens";
    if (!tokens->is_array()) throw bad_input(where, "an array", tokens->type_name());
    for (const json& object : *tokens) {
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
      place(token.id, token.content);
      spec_.added.push_back(std::move(token));
    }
    for (const AddedToken& token : spec_.added) {  // views: after the vector has stopped growing
      TokenSpec& place = spec_.tokens[static_cast<size_t>(token.id)];
      const bool own = place.kind != TokenKind::kAbsent && place.text == token.content;
      if (place.kind != TokenKind::kUnknown) {
        place.kind = token.special ? TokenKind::kControl : TokenKind::kUserDefined;
      }
      place.in_model = own;
      place.text = token.content;
    }
  }

  std::optional<int64_t> id_of(std::string_view text) const {
    for (size_t id = 0; id < spec_.tokens.size(); ++id) {
      if (spec_.tokens[id].kind != TokenKind::kAbsent && spec_.tokens[id].text == text) {
        return static_cast<int64_t>(id);
      }
    }
    return std::nullopt;
  }

  const TokenizerJson& file_;
  TokenizerSpec& spec_;
  std::string missing_text_;
};

}  // namespace

void read_model(const TokenizerJson& file, TokenizerSpec& spec) { ModelReader(file, spec).read(); }

}  // namespace mainstem::tokenizer
