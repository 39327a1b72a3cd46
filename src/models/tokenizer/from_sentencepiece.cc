#include <cstdint>
#include <limits>
#include <unordered_map>
#include <utility>

#include "io/json.h"
#include "io/text.h"
#include "models/tokenizer/json_fields.h"
#include "models/tokenizer/loaders.h"
#include "models/tokenizer/sentencepiece_file.h"

namespace mainstem::tokenizer {
namespace {

using nlohmann::json;

constexpr const char* kConfig = "tokenizer_config.json";

/// What any SentencePiece model needs; the tokens are the caller's.
TokenizerSpec spec_of(const SentencePieceFile& file) {
  const bool bpe = file.type == SentencePieceFile::Type::kBpe;
  TokenizerSpec spec;
  spec.model = bpe ? ModelKind::kScoredBpe : ModelKind::kUnigram;
  spec.byte_fallback = file.byte_fallback;
  spec.fuse_missing = true;
  spec.own_user_defined = true;
  spec.single_precision = true;
  SentencePieceStep step;
  step.charsmap = file.charsmap;
  step.add_dummy_prefix = file.add_dummy_prefix;
  step.remove_extra_whitespaces = file.remove_extra_whitespaces;
  step.escape_whitespaces = file.escape_whitespaces;
  for (const SentencePieceFile::Piece& piece : file.pieces) {
    if (piece.kind == TokenKind::kUserDefined) step.user_defined.emplace_back(piece.text);
    if (piece.kind == TokenKind::kByte && !byte_of_token(piece.text)) {
      throw bad_input("byte piece", "a text like <0x0A>", quote(piece.text, 40));
    }
  }
  spec.normalizer = {std::move(step)};
  spec.decoder.steps = {{.kind = DecoderSpec::Step::Kind::kReplace, .from = "\u2581", .to = " "},
                        {.kind = DecoderSpec::Step::Kind::kBytes}};
  // Where runs of spaces are one, none is left at the start.
  spec.decoder.strip_count = file.remove_extra_whitespaces ? std::numeric_limits<uint32_t>::max()
                             : file.add_dummy_prefix       ? 1
                                                           : 0;
  spec.rules = {std::string("model: SentencePiece ") + (bpe ? "BPE" : "unigram") +
                (file.byte_fallback ? " with byte tokens" : "")};
  return spec;
}

/// The id of the piece with that place, if the trainer gave it one.
std::optional<int64_t> named(int32_t id, TokenKind kind, const TokenizerSpec& spec) {
  const bool there = id >= 0 && id < static_cast<int64_t>(spec.tokens.size()) &&
                     spec.tokens[static_cast<size_t>(id)].kind == kind;
  return there ? std::optional<int64_t>(id) : std::nullopt;
}

void add_control(TokenizerSpec& spec) {
  for (size_t id = 0; id < spec.tokens.size(); ++id) {
    const TokenSpec& token = spec.tokens[id];
    if (token.kind != TokenKind::kControl && token.kind != TokenKind::kUnknown) continue;
    spec.added.push_back(
        {.id = static_cast<int64_t>(id), .content = std::string(token.text), .special = true});
  }
}

void add_end_ids_of(const SideFiles& side, TokenizerSpec& spec) {
  add_end_ids(parse_side_file("generation_config.json", side.generation_config),
              parse_side_file("config.json", side.config), spec);
}

/// A piece of the model by its text. Pieces may not stand twice.
using PieceIndex = std::unordered_map<std::string_view, size_t>;

PieceIndex index_of(const SentencePieceFile& file) {
  PieceIndex index;
  for (size_t i = 0; i < file.pieces.size(); ++i) {
    if (!index.emplace(file.pieces[i].text, i).second) {
      throw bad_input("pieces of the SentencePiece model", "each text once",
                      quote(file.pieces[i].text, 40) + " twice");
    }
  }
  return index;
}

}  // namespace

std::shared_ptr<const Pipeline> from_sentencepiece(std::string_view bytes, const SideFiles& side) {
  const SentencePieceFile file = read_sentencepiece(bytes);
  const json config = parse_side_file(kConfig, side.tokenizer_config);
  index_of(file);
  TokenizerSpec spec = spec_of(file);
  for (const SentencePieceFile::Piece& piece : file.pieces) {
    spec.tokens.push_back({.text = piece.text, .kind = piece.kind, .score = piece.score});
  }
  spec.unknown_id = named(file.unknown_id, TokenKind::kUnknown, spec);
  spec.bos_id = named(file.bos_id, TokenKind::kControl, spec);
  spec.eos_id = named(file.eos_id, TokenKind::kControl, spec);
  spec.padding_id = named(file.padding_id, TokenKind::kControl, spec);
  spec.missing_id = spec.unknown_id;
  add_control(spec);
  add_end_ids_of(side, spec);

  // The model itself says neither; the defaults are those of the Llama tokenizers for BPE models
  // and of T5's for unigram ones.
  const bool bpe = spec.model == ModelKind::kScoredBpe;
  if (bool_or(config, "add_bos_token", bpe, kConfig) && spec.bos_id) {
    spec.prefix_ids = {*spec.bos_id};
  }
  if (bool_or(config, "add_eos_token", !bpe, kConfig) && spec.eos_id) {
    spec.suffix_ids = {*spec.eos_id};
  }
  const bool legacy = bool_or(config, "legacy", !bpe, kConfig);
  std::get<SentencePieceStep>(spec.normalizer[0]).only_at_start = !legacy;
  spec.rules.push_back(std::string("space prefix: ") +
                       (legacy ? "also after special tokens" : "at the start of the text alone") +
                       (config.contains("legacy") ? " (legacy in tokenizer_config.json)"
                                                  : " (default of the model's kind)"));
  return build_pipeline(std::move(spec));
}

std::shared_ptr<const Pipeline> from_marian(std::string_view model, std::string_view vocabulary,
                                            const SideFiles& side) {
  const SentencePieceFile file = read_sentencepiece(model);
  const json config = parse_side_file(kConfig, side.tokenizer_config);
  const json ids = with_context("vocab.json", [&] { return parse_json(vocabulary); });
  if (!ids.is_object()) throw bad_input("vocab.json", "an object of ids", ids.type_name());
  const PieceIndex pieces = index_of(file);
  TokenizerSpec spec = spec_of(file);
  const size_t most = ids.size() * 2 + 65536;
  const auto id_of = [&](const std::string& text) -> std::optional<int64_t> {
    if (!ids.contains(text)) return std::nullopt;
    return int_or(ids, text.c_str(), -1, "vocab.json");
  };
  const std::string unknown = text_or(config, "unk_token", "<unk>", kConfig);
  const std::string end = text_or(config, "eos_token", "</s>", kConfig);
  const std::string padding = text_or(config, "pad_token", "<pad>", kConfig);
  spec.unknown_id = id_of(unknown);
  spec.eos_id = id_of(end);
  spec.padding_id = id_of(padding);
  if (!spec.unknown_id) throw bad_input("vocab.json", "the token " + quote(unknown), "none");
  spec.missing_id = spec.unknown_id;
  for (const auto& [text, value] : ids.get_ref<const json::object_t&>()) {
    const int64_t id = int_or(ids, text.c_str(), -1, "vocab.json");
    if (id < 0 || id >= static_cast<int64_t>(most)) {
      throw bad_input("id of token " + quote(text, 40), "0 to " + std::to_string(most - 1),
                      value.dump());
    }
    const auto i = static_cast<size_t>(id);
    if (i >= spec.tokens.size()) spec.tokens.resize(i + 1);
    if (spec.tokens[i].kind != TokenKind::kAbsent) {
      throw bad_input("vocab.json", "one token per id", std::to_string(id) + " twice");
    }
    const auto piece = pieces.find(text);
    TokenSpec& token = spec.tokens[i];
    token = {.text = text, .kind = TokenKind::kNormal};
    const bool control = text == unknown || text == end || text == padding;
    const bool language = text.starts_with(">>") && text.ends_with("<<");
    token.in_model = piece != pieces.end() && !control;
    if (piece != pieces.end()) {
      token.kind = file.pieces[piece->second].kind;
      token.score = file.pieces[piece->second].score;
    }
    if (control) token.kind = text == unknown ? TokenKind::kUnknown : TokenKind::kControl;
    if (!language) continue;
    token.kind = TokenKind::kUserDefined;
    token.in_model = false;
    spec.added.push_back({.id = id, .content = text});
  }
  // What the model cuts off but vocab.json does not name becomes unknown.
  for (const SentencePieceFile::Piece& piece : file.pieces) {
    if (ids.contains(piece.text)) continue;
    if (piece.kind != TokenKind::kNormal && piece.kind != TokenKind::kUserDefined) continue;
    spec.tokens.push_back(
        {.text = piece.text, .kind = piece.kind, .score = piece.score, .in_model = true});
    ++spec.nameless_tokens;
  }
  add_control(spec);
  if (spec.eos_id) spec.suffix_ids = {*spec.eos_id};
  add_end_ids_of(side, spec);
  spec.rules.push_back("ids: vocab.json; </s> after every text (Marian)");
  return build_pipeline(std::move(spec));
}

}  // namespace mainstem::tokenizer
