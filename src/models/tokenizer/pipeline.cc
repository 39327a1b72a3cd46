#include "models/tokenizer/pipeline.h"

#include <algorithm>
#include <utility>

#include "mainstem/error.h"
#include "models/tokenizer/bpe.h"
#include "models/tokenizer/normalizer.h"

namespace mainstem::tokenizer {
namespace {

/// Those of `tokens` that are looked for in the text (or in the normalised text).
std::vector<AddedToken> select(const std::vector<AddedToken>& tokens, bool normalized,
                               Normalization normalization) {
  std::vector<AddedToken> selected;
  for (const AddedToken& token : tokens) {
    if (token.normalized != normalized) continue;
    selected.push_back(token);
    if (normalized && normalization == Normalization::kNfc) {
      selected.back().content = to_nfc(token.content);
    }
  }
  return selected;
}

}  // namespace

struct Pipeline::Work {
  std::vector<int64_t> ids;
  Matcher matcher;
  SplitText split;
  std::string normalized;
  std::vector<Segment> inner;
};

Pipeline::Pipeline(TokenizerSpec spec)
    : bos_id(spec.bos_id),
      eos_id(spec.eos_id),
      unknown_id(spec.unknown_id),
      padding_id(spec.padding_id),
      end_ids(std::move(spec.end_ids)),
      prefix_ids(std::move(spec.prefix_ids)),
      suffix_ids(std::move(spec.suffix_ids)),
      rules(std::move(spec.rules)),
      vocab_(spec),
      special_(spec.tokens.size()),
      pretokenizer_(std::move(spec.stages)),
      normalization_(spec.normalization),
      added_(select(spec.added, false, spec.normalization)),
      added_normalized_(select(spec.added, true, spec.normalization)) {
  const auto check = [&](const char* what, int64_t id) {
    const bool present = id >= 0 && id < vocab_.size() &&
                         vocab_.kind(static_cast<int32_t>(id)) != TokenKind::kAbsent;
    if (!present) {
      throw bad_input(what, "the id of a token, below " + std::to_string(vocab_.size()),
                      std::to_string(id));
    }
  };
  if (bos_id) check("BOS id", *bos_id);
  if (eos_id) check("EOS id", *eos_id);
  if (unknown_id) check("unknown id", *unknown_id);
  if (padding_id) check("padding id", *padding_id);
  if (spec.missing_byte_id) check("unknown token of the model", *spec.missing_byte_id);
  for (const int64_t id : prefix_ids) check("id before every text", id);
  for (const int64_t id : suffix_ids) check("id after every text", id);
  for (const AddedToken& token : spec.added) check("added token", token.id);
  for (const int64_t id : end_ids) check("end id", id);
  std::ranges::sort(end_ids);
  end_ids.erase(std::unique(end_ids.begin(), end_ids.end()), end_ids.end());

  for (int32_t id = 0; id < vocab_.size(); ++id) {
    const TokenKind kind = vocab_.kind(id);
    special_[static_cast<size_t>(id)] = kind == TokenKind::kControl || kind == TokenKind::kUnknown;
  }
  auto model = std::make_unique<ByteLevelBpe>(spec, vocab_);
  if (const int missing = model->missing_bytes(); missing > 0) {
    rules.push_back("bytes: " + std::to_string(missing) + " of 256 have no token" +
                    (spec.missing_byte_id ? " and become the unknown token" : ""));
  }
  model_ = std::move(model);
}

std::vector<int64_t> Pipeline::encode(std::string_view text, const EncodeOptions& options) const {
  Work work;
  work.ids.reserve(text.size() / 3 + prefix_ids.size() + suffix_ids.size());
  if (options.add_special) work.ids = prefix_ids;
  std::vector<Segment> segments;
  added_.split(text, options.parse_special, segments);
  for (const Segment& segment : segments) {
    if (segment.id >= 0) {
      work.ids.push_back(segment.id);
    } else {
      encode_segment(segment.text, options, work);
    }
  }
  if (options.add_special) {
    work.ids.insert(work.ids.end(), suffix_ids.begin(), suffix_ids.end());
  }
  return std::move(work.ids);
}

void Pipeline::encode_segment(std::string_view text, const EncodeOptions& options,
                              Work& work) const {
  if (normalization_ == Normalization::kNfc) {
    work.normalized = to_nfc(text);
    text = work.normalized;
  }
  work.inner.clear();
  added_normalized_.split(text, options.parse_special, work.inner);
  for (const Segment& segment : work.inner) {
    if (segment.id >= 0) {
      work.ids.push_back(segment.id);
      continue;
    }
    pretokenizer_.split(segment.text, work.matcher, work.split);
    for (const SplitText::Piece& piece : work.split.pieces) {
      const auto word =
          std::string_view(work.split.text).substr(piece.begin, piece.end - piece.begin);
      if (!word.empty()) model_->encode(word, options.missing_byte, work.ids);
    }
  }
}

std::optional<int64_t> Pipeline::find(std::string_view text) const {
  if (const AddedToken* token = added_.find(text)) return token->id;
  if (const AddedToken* token = added_normalized_.find(text)) return token->id;
  const int32_t id = vocab_.find(text);
  return id < 0 ? std::nullopt : std::optional<int64_t>(id);
}

std::shared_ptr<const Pipeline> build_pipeline(TokenizerSpec spec) {
  return std::make_shared<const Pipeline>(std::move(spec));
}

}  // namespace mainstem::tokenizer
