#include "models/tokenizer/json_fields.h"
#include "models/tokenizer/json_sections.h"

namespace mainstem::tokenizer {
namespace {

using nlohmann::json;

class ProcessorReader {
 public:
  explicit ProcessorReader(TokenizerSpec& spec) : spec_(spec) {}

  void read(const json& section, int depth) {
    const std::string where = "post_processor";
    const std::string type = need_text(section, "type", where);
    if (type == "ByteLevel") return;  // moves offsets only
    if (type == "Sequence" && depth < 8) {
      for (const json& part : need_array(section, "processors", where)) read(part, depth + 1);
    } else if (type == "TemplateProcessing") {
      read_template(section);
    } else if (type == "RobertaProcessing" || type == "BertProcessing") {
      spec_.prefix_ids.insert(spec_.prefix_ids.begin(), id_of_pair(section, "cls"));
      spec_.suffix_ids.push_back(id_of_pair(section, "sep"));
    } else {
      throw bad_input("post_processor.type",
                      "ByteLevel, TemplateProcessing, RobertaProcessing, BertProcessing or a "
                      "Sequence of these",
                      quote(type));
    }
  }

 private:
  /// The id in ["</s>", 2].
  static int64_t id_of_pair(const json& section, const char* key) {
    const json& pair = need_array(section, key, "post_processor");
    if (pair.size() != 2 || !pair[1].is_number_integer()) {
      throw bad_input(std::string("post_processor.") + key, "a token and its id",
                      quote(pair.dump(), 60));
    }
    return pair[1].get<int64_t>();
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

  TokenizerSpec& spec_;
};

}  // namespace

void read_post_processor(const json& section, TokenizerSpec& spec) {
  ProcessorReader(spec).read(section, 0);
}

}  // namespace mainstem::tokenizer
