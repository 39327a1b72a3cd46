#include "models/tokenizer/pipeline.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "io/text.h"
#include "mainstem/error.h"
#include "models/tokenizer/bpe.h"
#include "models/tokenizer/scored_bpe.h"
#include "models/tokenizer/unigram.h"
#include "models/tokenizer/word_piece.h"

namespace mainstem::tokenizer {
namespace {

/// Of tokens that are looked for byte by byte; as in sentencepiece.
constexpr size_t kMaxPieceBytes = 8000;

/// Those of `tokens` that are looked for in the text (or in the normalised text).
std::vector<AddedToken> select(const std::vector<AddedToken>& tokens, bool normalized,
                               const Normalizer& normalizer) {
  std::vector<AddedToken> selected;
  Matcher matcher;
  std::string storage;
  for (const AddedToken& token : tokens) {
    if (token.normalized != normalized) continue;
    selected.push_back(token);
    if (normalized) {
      selected.back().content = normalizer.apply(token.content, true, matcher, storage);
    }
  }
  return selected;
}

void check_pieces(const TokenizerSpec& spec, const Vocab& vocab) {
  if (vocab.longest() > kMaxPieceBytes) {
    throw bad_input("vocabulary", "tokens of at most " + std::to_string(kMaxPieceBytes) + " bytes",
                    std::to_string(vocab.longest()));
  }
  for (const TokenSpec& token : spec.tokens) {
    if (!std::isfinite(token.score)) {
      throw bad_input("score of token " + quote(token.text, 40), "a finite number",
                      std::to_string(token.score));
    }
  }
}

}  // namespace

struct Pipeline::Work {
  EncodeContext context;
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
      size_(vocab_.size() - static_cast<int64_t>(spec.nameless_tokens)),
      missing_id_(spec.missing_id),
      special_(spec.tokens.size()),
      normalizer_(spec.normalizer),
      pretokenizer_(std::move(spec.stages)),
      decoder_(std::move(spec.decoder)),
      byte_tokens_(vocab_),
      added_(select(spec.added, false, normalizer_)),
      added_normalized_(select(spec.added, true, normalizer_)) {
  check_ids(spec);
  std::ranges::sort(end_ids);
  end_ids.erase(std::unique(end_ids.begin(), end_ids.end()), end_ids.end());
  for (int32_t id = 0; id < vocab_.size(); ++id) {
    const TokenKind kind = vocab_.kind(id);
    special_[static_cast<size_t>(id)] = kind == TokenKind::kControl || kind == TokenKind::kUnknown;
  }
  make_model(spec);
}

void Pipeline::check_ids(const TokenizerSpec& spec) {
  const auto check = [&](const char* what, int64_t id) {
    const bool present =
        id >= 0 && id < size_ && vocab_.kind(static_cast<int32_t>(id)) != TokenKind::kAbsent;
    if (!present) {
      throw bad_input(what, "the id of a token, below " + std::to_string(size_),
                      std::to_string(id));
    }
  };
  if (bos_id) check("BOS id", *bos_id);
  if (eos_id) check("EOS id", *eos_id);
  if (unknown_id) check("unknown id", *unknown_id);
  if (padding_id) check("padding id", *padding_id);
  if (spec.missing_id) check("unknown token of the model", *spec.missing_id);
  for (const int64_t id : prefix_ids) check("id before every text", id);
  for (const int64_t id : suffix_ids) check("id after every text", id);
  for (const AddedToken& token : spec.added) check("added token", token.id);
  for (const int64_t id : end_ids) check("end id", id);
  if (size_ < vocab_.size() && !spec.missing_id) {
    throw internal_error("tokens without ids need an unknown token");
  }
}

void Pipeline::make_model(const TokenizerSpec& spec) {
  takes_any_bytes_ =
      spec.model == ModelKind::kByteBpe || (spec.byte_fallback && byte_tokens_.complete());
  switch (spec.model) {
    case ModelKind::kByteBpe:
    case ModelKind::kBpe: {
      auto model = std::make_unique<MergeBpe>(spec, vocab_);
      const int missing = spec.model == ModelKind::kByteBpe ? model->missing_bytes() : 0;
      if (missing > 0) {
        rules.push_back("bytes: " + std::to_string(missing) + " of 256 have no token" +
                        (spec.missing_id ? " and become the unknown token" : ""));
      }
      model_ = std::move(model);
      return;
    }
    case ModelKind::kScoredBpe:
      check_pieces(spec, vocab_);
      model_ = std::make_unique<ScoredBpe>(spec, vocab_);
      return;
    case ModelKind::kUnigram:
      check_pieces(spec, vocab_);
      model_ = std::make_unique<Unigram>(spec, vocab_);
      return;
    case ModelKind::kWordPiece:
      check_pieces(spec, vocab_);
      model_ = std::make_unique<WordPiece>(spec, vocab_);
      return;
  }
}

std::vector<int64_t> Pipeline::encode(std::string_view text, const EncodeOptions& options,
                                      uint64_t* work_done) const {
  std::string replaced;
  if (!takes_any_bytes_ && valid_utf8_prefix(text) != text.size()) {
    replaced = replace_invalid_utf8(text);
    text = replaced;
  }
  Work work;
  work.context.missing = options.missing_byte;
  work.ids.reserve(text.size() / 3 + prefix_ids.size() + suffix_ids.size());
  if (options.add_special) work.ids = prefix_ids;
  std::vector<Segment> segments;
  added_.split(text, options.parse_special, segments);
  for (const Segment& segment : segments) {
    if (segment.id >= 0) {
      work.ids.push_back(segment.id);
    } else {
      const bool at_start = segment.text.data() == text.data();
      encode_segment(segment.text, at_start, options.parse_special, work);
    }
  }
  if (size_ < vocab_.size()) {
    for (int64_t& id : work.ids) id = id < size_ ? id : *missing_id_;
  }
  if (options.add_special) {
    work.ids.insert(work.ids.end(), suffix_ids.begin(), suffix_ids.end());
  }
  if (work_done != nullptr) *work_done = work.context.work;
  return std::move(work.ids);
}

void Pipeline::encode_segment(std::string_view text, bool at_start, bool parse_special,
                              Work& work) const {
  text = normalizer_.apply(text, at_start, work.matcher, work.normalized);
  work.inner.clear();
  added_normalized_.split(text, parse_special, work.inner);
  for (const Segment& segment : work.inner) {
    if (segment.id >= 0) {
      work.ids.push_back(segment.id);
      continue;
    }
    const bool first = at_start && segment.text.data() == text.data();
    pretokenizer_.split(segment.text, first, work.matcher, work.split);
    for (const SplitText::Piece& piece : work.split.pieces) {
      const auto word =
          std::string_view(work.split.text).substr(piece.begin, piece.end - piece.begin);
      if (!word.empty()) model_->encode(word, work.context, work.ids);
    }
  }
}

std::optional<int64_t> Pipeline::find(std::string_view text) const {
  if (const AddedToken* token = added_.find(text)) return token->id;
  if (const AddedToken* token = added_normalized_.find(text)) return token->id;
  int32_t id = vocab_.find(text);
  if (id < 0 && text.find(' ') != text.npos) {  // written with U+2581 in SentencePiece's texts
    std::string marked;
    for (const char c : text)
      marked += c == ' ' ? std::string_view("\u2581") : std::string_view(&c, 1);
    id = vocab_.find(marked);
    if (id >= 0 && vocab_.bytes(id) != text) id = -1;
  }
  if (id < 0 && text.size() == 1) {
    id = byte_tokens_[text[0]];
    if (id >= 0 && vocab_.bytes(id) != text) id = -1;
  }
  return id < 0 || id >= size_ ? std::nullopt : std::optional<int64_t>(id);
}

std::shared_ptr<const Pipeline> build_pipeline(TokenizerSpec spec) {
  return std::make_shared<const Pipeline>(std::move(spec));
}

}  // namespace mainstem::tokenizer
