#include "mainstem/tokenizer.h"

#include <utility>

#include "mainstem/error.h"
#include "models/tokenizer/pipeline.h"

namespace mainstem {
namespace {

int32_t checked_id(const tokenizer::Pipeline& pipeline, int64_t id) {
  if (id < 0 || id >= pipeline.size()) {
    throw usage_error("token id", "0 to " + std::to_string(pipeline.size() - 1),
                      std::to_string(id));
  }
  return static_cast<int32_t>(id);
}

/// Appends what an id adds to the text, if it is shown at all.
void append_shown(const tokenizer::Pipeline& pipeline, int64_t id, const DecodeOptions& options,
                  tokenizer::JoinState& state, std::string& out) {
  if (options.skip_special && pipeline.is_special(id)) return;
  const tokenizer::Vocab& vocab = pipeline.vocab();
  const auto token = static_cast<int32_t>(id);
  tokenizer::append_token(pipeline.decoder(), vocab.text(token), vocab.bytes(token), state, out);
}

void append_escape(unsigned byte, std::string& out) {
  constexpr char kDigits[] = "0123456789ABCDEF";
  out += "\\x";
  out += kDigits[byte >> 4 & 15];
  out += kDigits[byte & 15];
}

}  // namespace

Tokenizer::Tokenizer(std::shared_ptr<const tokenizer::Pipeline> pipeline)
    : pipeline_(std::move(pipeline)) {
  if (pipeline_ == nullptr) throw internal_error("a Tokenizer was made of nothing");
}

std::vector<int64_t> Tokenizer::encode(std::string_view text, const EncodeOptions& options) const {
  return pipeline_->encode(text, options);
}

std::string Tokenizer::decode(std::span<const int64_t> ids, const DecodeOptions& options) const {
  std::string bytes;
  tokenizer::JoinState state;
  for (const int64_t id : ids) {
    checked_id(*pipeline_, id);
    append_shown(*pipeline_, id, options, state, bytes);
  }
  if (options.invalid_utf8 == InvalidUtf8::kKeep) return bytes;
  return tokenizer::replace_invalid_utf8(bytes);
}

std::string_view Tokenizer::token_bytes(int64_t id) const {
  return pipeline_->vocab().bytes(checked_id(*pipeline_, id));
}

std::string Tokenizer::piece(int64_t id) const {
  std::string out;
  for (std::string_view text = token_bytes(id); !text.empty();) {
    const tokenizer::DecodedCodePoint next = tokenizer::decode_utf8(text);
    const bool line_break = next.code_point == 0x2028 || next.code_point == 0x2029;
    const bool control =
        next.code_point < 0x20 || (next.code_point >= 0x7F && next.code_point < 0xA0) || line_break;
    switch (next.code_point) {
      case '\n':
        out += "\\n";
        break;
      case '\r':
        out += "\\r";
        break;
      case '\t':
        out += "\\t";
        break;
      case '\\':
        out += "\\\\";
        break;
      default:
        if (next.valid && !control) {
          out += text.substr(0, next.length);
        } else {
          for (const char byte : text.substr(0, next.length)) {
            append_escape(static_cast<unsigned char>(byte), out);
          }
        }
    }
    text.remove_prefix(next.length);
  }
  return out;
}

bool Tokenizer::is_special(int64_t id) const {
  return pipeline_->is_special(checked_id(*pipeline_, id));
}

std::optional<int64_t> Tokenizer::find(std::string_view bytes) const {
  return pipeline_->find(bytes);
}

int64_t Tokenizer::vocab_size() const { return pipeline_->size(); }
std::optional<int64_t> Tokenizer::bos_id() const { return pipeline_->bos_id; }
std::optional<int64_t> Tokenizer::eos_id() const { return pipeline_->eos_id; }
std::optional<int64_t> Tokenizer::unknown_id() const { return pipeline_->unknown_id; }
std::optional<int64_t> Tokenizer::padding_id() const { return pipeline_->padding_id; }
const std::vector<int64_t>& Tokenizer::end_ids() const { return pipeline_->end_ids; }
const std::vector<int64_t>& Tokenizer::prefix_ids() const { return pipeline_->prefix_ids; }
const std::vector<int64_t>& Tokenizer::suffix_ids() const { return pipeline_->suffix_ids; }
const std::vector<std::string>& Tokenizer::rules() const { return pipeline_->rules; }

StreamDecoder::StreamDecoder(Tokenizer tokenizer, const DecodeOptions& options)
    : tokenizer_(std::move(tokenizer)), options_(options) {}

std::string StreamDecoder::push(int64_t id) {
  checked_id(*tokenizer_.pipeline_, id);
  append_shown(*tokenizer_.pipeline_, id, options_, state_, held_);
  const size_t ready = held_.size() - tokenizer::incomplete_utf8_suffix(held_);
  std::string out = held_.substr(0, ready);
  held_.erase(0, ready);
  if (options_.invalid_utf8 == InvalidUtf8::kKeep) return out;
  return tokenizer::replace_invalid_utf8(out);
}

std::string StreamDecoder::finish() {
  state_ = {};
  std::string out = std::exchange(held_, {});
  if (options_.invalid_utf8 == InvalidUtf8::kKeep) return out;
  return tokenizer::replace_invalid_utf8(out);
}

}  // namespace mainstem
