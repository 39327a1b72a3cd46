#include "models/config_reader.h"

#include <algorithm>
#include <cmath>

#include "mainstem/error.h"

namespace mainstem {
namespace {

// Keys that every config of transformers may carry and that do not touch the forward pass.
constexpr std::string_view kHarmless[] = {"_attn_implementation_autoset",
                                          "_commit_hash",
                                          "_name_or_path",
                                          "architectures",
                                          "attention_dropout",
                                          "attn_implementation",
                                          "auto_map",
                                          "bad_words_ids",
                                          "begin_suppress_tokens",
                                          "bos_token_id",
                                          "chunk_size_feed_forward",
                                          "decoder_start_token_id",
                                          "diversity_penalty",
                                          "do_sample",
                                          "dtype",
                                          "early_stopping",
                                          "embd_pdrop",
                                          "eos_token_id",
                                          "exponential_decay_length_penalty",
                                          "finetuning_task",
                                          "forced_bos_token_id",
                                          "forced_eos_token_id",
                                          "id2label",
                                          "initializer_range",
                                          "is_decoder",
                                          "is_encoder_decoder",
                                          "keys_to_ignore_at_inference",
                                          "label2id",
                                          "length_penalty",
                                          "max_length",
                                          "min_length",
                                          "model_type",
                                          "name_or_path",
                                          "no_repeat_ngram_size",
                                          "num_beam_groups",
                                          "num_beams",
                                          "num_return_sequences",
                                          "output_attentions",
                                          "output_hidden_states",
                                          "output_scores",
                                          "pad_token_id",
                                          "prefix",
                                          "pretraining_tp",
                                          "problem_type",
                                          "pruned_heads",
                                          "remove_invalid_values",
                                          "repetition_penalty",
                                          "resid_pdrop",
                                          "return_dict",
                                          "return_dict_in_generate",
                                          "sep_token_id",
                                          "suppress_tokens",
                                          "task_specific_params",
                                          "temperature",
                                          "tf_legacy_loss",
                                          "tokenizer_class",
                                          "top_k",
                                          "top_p",
                                          "torch_dtype",
                                          "torchscript",
                                          "transformers_version",
                                          "typical_p",
                                          "use_bfloat16",
                                          "use_cache",
                                          "cross_attention_hidden_size",
                                          "add_cross_attention",
                                          "tie_encoder_decoder",
                                          "transformers.js_config"};

std::string shown(const nlohmann::json& value) {
  std::string text = value.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  if (text.size() > 60) text = text.substr(0, 57) + "...";
  return text;
}

}  // namespace

ConfigReader::ConfigReader(const nlohmann::json& object, std::string file)
    : object_(object), file_(std::move(file)) {
  if (!object.is_object()) throw bad_input("config", "a JSON object", shown(object)).in(file_);
}

const nlohmann::json* ConfigReader::find(std::string_view key) {
  const nlohmann::json* value = nullptr;
  while (true) {
    const size_t bar = key.find('|');
    const std::string_view name = key.substr(0, bar);
    used_.emplace(name);
    const auto found = object_.find(name);
    if (value == nullptr && found != object_.end() && !found->is_null()) value = &*found;
    if (bar == std::string_view::npos) return value;
    key.remove_prefix(bar + 1);
  }
}

bool ConfigReader::is_null(std::string_view key) {
  used_.emplace(key);
  const auto found = object_.find(key);
  return found != object_.end() && found->is_null();
}

void ConfigReader::fail(std::string_view key, const std::string& expected) const {
  // Of "a|b" the one that is there is named, else the first.
  std::string_view name = key.substr(0, key.find('|'));
  auto found = object_.find(name);
  while (found == object_.end() && key.find('|') != std::string_view::npos) {
    key.remove_prefix(key.find('|') + 1);
    found = object_.find(key.substr(0, key.find('|')));
    if (found != object_.end()) name = key.substr(0, key.find('|'));
  }
  throw bad_input("config key " + std::string(name), expected,
                  found == object_.end() ? "none" : shown(*found))
      .in(file_);
}

bool ConfigReader::has(std::string_view key) { return find(key) != nullptr; }

std::optional<int64_t> ConfigReader::get_int(std::string_view key) {
  const auto* value = find(key);
  if (value == nullptr) return std::nullopt;
  if (value->is_number_unsigned()) {
    if (value->get<uint64_t>() > INT64_MAX) fail(key, "an integer that fits 63 bits");
    return value->get<int64_t>();
  }
  if (value->is_number_integer()) return value->get<int64_t>();
  if (value->is_number_float()) {
    const double number = value->get<double>();
    if (number == std::floor(number) && std::abs(number) < 9e15) {
      return static_cast<int64_t>(number);
    }
  }
  fail(key, "an integer");
}

std::optional<double> ConfigReader::get_number(std::string_view key) {
  const auto* value = find(key);
  if (value == nullptr) return std::nullopt;
  if (!value->is_number()) fail(key, "a number");
  return value->get<double>();
}

std::optional<bool> ConfigReader::get_bool(std::string_view key) {
  const auto* value = find(key);
  if (value == nullptr) return std::nullopt;
  if (!value->is_boolean()) fail(key, "true or false");
  return value->get<bool>();
}

std::optional<std::string> ConfigReader::get_string(std::string_view key) {
  const auto* value = find(key);
  if (value == nullptr) return std::nullopt;
  if (!value->is_string()) fail(key, "a text");
  return value->get<std::string>();
}

const nlohmann::json* ConfigReader::get_object(std::string_view key) {
  const auto* value = find(key);
  if (value != nullptr && !value->is_object()) fail(key, "an object");
  return value;
}

std::vector<double> ConfigReader::get_numbers(std::string_view key) {
  const auto* value = find(key);
  std::vector<double> result;
  if (value == nullptr) return result;
  if (!value->is_array()) fail(key, "a list of numbers");
  for (const auto& element : *value) {
    if (!element.is_number()) fail(key, "a list of numbers");
    result.push_back(element.get<double>());
  }
  return result;
}

std::vector<std::string> ConfigReader::get_strings(std::string_view key) {
  const auto* value = find(key);
  std::vector<std::string> result;
  if (value == nullptr) return result;
  if (!value->is_array()) fail(key, "a list of texts");
  for (const auto& element : *value) {
    if (!element.is_string()) fail(key, "a list of texts");
    result.push_back(element.get<std::string>());
  }
  return result;
}

int64_t ConfigReader::need_int(std::string_view key) {
  const auto value = get_int(key);
  if (!value) fail(key, "an integer");
  return *value;
}

void ConfigReader::ignore(std::initializer_list<std::string_view> keys) {
  for (std::string_view key : keys) used_.emplace(key);
}

void ConfigReader::finish(const std::vector<std::string>& allowed) const {
  std::string unknown;
  for (const auto& [key, value] : object_.items()) {
    if (used_.contains(key)) continue;
    if (std::find(std::begin(kHarmless), std::end(kHarmless), key) != std::end(kHarmless)) continue;
    if (std::find(allowed.begin(), allowed.end(), key) != allowed.end()) continue;
    unknown += (unknown.empty() ? "" : ", ") + key + " = " + shown(value);
  }
  if (!unknown.empty()) {
    throw bad_input("config keys", "only keys that are used or known to be harmless", unknown)
        .in(file_)
        .hint("--allow-unknown-key KEY accepts one that does not matter");
  }
}

}  // namespace mainstem
