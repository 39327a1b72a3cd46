#include <algorithm>
#include <initializer_list>
#include <utility>

#include "models/tokenizer/json_fields.h"
#include "models/tokenizer/json_sections.h"
#include "models/tokenizer/loaders.h"

namespace mainstem::tokenizer {
namespace {

using nlohmann::json;

/// Everything about one folder while its spec is put together.
class Loader {
 public:
  Loader(std::string_view text, const SideFiles& side)
      : file_(read_tokenizer_json(text)),
        tokenizer_config_(parse_side_file("tokenizer_config.json", side.tokenizer_config)),
        generation_config_(parse_side_file("generation_config.json", side.generation_config)),
        config_(parse_side_file("config.json", side.config)) {}

  std::shared_ptr<const Pipeline> load() {
    check_keys();
    read_model(file_, spec_);
    read_normalizer_section();
    read_stages_and_decoder();
    read_named_ids();
    read_around();
    add_end_ids(generation_config_, config_, spec_);
    return build_pipeline(std::move(spec_));
  }

 private:
  void check_keys() const {
    // Truncation and padding are wishes of the program that saved the file, not of the model.
    refuse_other_keys(file_.tree,
                      {"version", "truncation", "padding", "added_tokens", "normalizer",
                       "pre_tokenizer", "post_processor", "decoder", "model"},
                      "tokenizer.json");
  }

  const json* section(const char* name) const { return member(file_.tree, name, "tokenizer.json"); }

  void read_normalizer_section() {
    if (const json* normalizer = section("normalizer")) {
      spec_.normalizer = read_normalizer(*normalizer);
    }
    spec_.rules.push_back(
        "normaliser: " +
        (spec_.normalizer.empty() ? "none" : std::to_string(spec_.normalizer.size()) + " steps") +
        " (tokenizer.json)");
  }

  void read_stages_and_decoder() {
    const json* stages = section("pre_tokenizer");
    JsonStages read = stages == nullptr ? JsonStages{} : read_stages(*stages);
    spec_.stages = std::move(read.stages);
    spec_.rules.push_back("pre-tokenizer: " + std::to_string(spec_.stages.size()) +
                          " steps (tokenizer.json)");

    const json* decoder = section("decoder");
    JsonDecoder decoding = decoder == nullptr ? JsonDecoder{} : read_decoder(*decoder);
    spec_.decoder = std::move(decoding.spec);
    if (read.byte_level) {
      use_byte_level(decoder != nullptr && !decoding.byte_level);
    } else if (decoding.byte_level) {
      throw bad_input("pre_tokenizer", "a ByteLevel step, as the decoder is ByteLevel",
                      stages == nullptr ? "null" : "none");
    } else if (decoder == nullptr) {
      spec_.decoder.join = DecoderSpec::Join::kSpaces;
    }
  }

  void use_byte_level(bool other_decoder) {
    if (spec_.model != ModelKind::kBpe) {
      throw bad_input("model.type", "BPE, as the pre-tokenizer is ByteLevel", "another");
    }
    if (other_decoder)
      throw bad_input("decoder.type", "ByteLevel, as the pre-tokenizer", "another");
    if (spec_.byte_fallback) {
      throw bad_input("model.byte_fallback", "false (byte-level BPE)", "true");
    }
    spec_.model = ModelKind::kByteBpe;
    spec_.rules.push_back("alphabet: byte-level (pre_tokenizer of tokenizer.json)");
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

  void read_around() {
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
    } else if (const json* processor = section("post_processor")) {
      read_post_processor(*processor, spec_);
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

  TokenizerJson file_;
  json tokenizer_config_, generation_config_, config_;
  TokenizerSpec spec_;
};

}  // namespace

std::shared_ptr<const Pipeline> from_tokenizer_json(std::string_view text, const SideFiles& side) {
  return Loader(text, side).load();
}

}  // namespace mainstem::tokenizer
