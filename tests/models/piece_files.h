#pragma once

// Tokenizers of tests/golden/tokenizers/pieces, and GGUF files made from them.

#include <algorithm>
#include <bit>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "io/gguf_builder.h"
#include "io/test_files.h"
#include "models/tokenizer/loaders.h"
#include "models/tokenizer/sentencepiece_file.h"
#include "models/tokenizer_files.h"

namespace mainstem::test {

inline std::filesystem::path pieces_folder() {
  return std::filesystem::path(MAINSTEM_TEST_DATA) / "golden/tokenizers/pieces";
}

/// A base with a variant's changes, as make_piece_tokenizers.py makes it.
inline nlohmann::json piece_variant(const std::string& name) {
  const nlohmann::json variant = read_golden("tokenizers/pieces/variants.json").at(name);
  nlohmann::json result =
      read_golden("tokenizers/pieces/" + variant["base"].get<std::string>() + ".json");
  for (const auto& [section, value] : variant["overrides"].items()) {
    if (section == "model") {
      result["model"].update(value);
    } else {
      result[section] = value;
    }
  }
  return result;
}

inline Tokenizer load_variant(const std::string& name) {
  return Tokenizer(tokenizer::from_tokenizer_json(piece_variant(name).dump(), {}));
}

inline std::string model_bytes(const std::string& name) {
  return read_file(pieces_folder() / (name + ".model"));
}

inline Tokenizer load_model(const std::string& name, const std::string& config) {
  return Tokenizer(tokenizer::from_sentencepiece(model_bytes(name), {.tokenizer_config = config}));
}

/// A SentencePiece model as make_gguf_tokenizers.py writes it.
inline std::string piece_gguf(const std::string& name) {
  const std::string bytes = model_bytes(name);
  const auto file = tokenizer::read_sentencepiece(bytes);
  const bool unigram = file.type == tokenizer::SentencePieceFile::Type::kUnigram;
  Bytes texts, scores, types;
  uint32_t unknown = 0;
  for (size_t i = 0; i < file.pieces.size(); ++i) {
    const auto& piece = file.pieces[i];
    std::string text(piece.text);
    if (piece.kind == tokenizer::TokenKind::kUserDefined) {
      for (size_t at = 0; (at = text.find("\u2581")) != text.npos;) text.replace(at, 3, " ");
    }
    texts.string(text);
    scores.u32(std::bit_cast<uint32_t>(piece.score));
    types.u32(static_cast<uint32_t>(piece.kind));
    if (piece.kind == tokenizer::TokenKind::kUnknown) unknown = static_cast<uint32_t>(i);
  }
  const auto flag = [](bool value) { return Bytes().raw(std::string(1, value ? '\1' : '\0')); };
  GgufBuilder out;
  out.text("general.architecture", "llama").text("tokenizer.ggml.model", unigram ? "t5" : "llama");
  out.array("tokenizer.ggml.tokens", GgufType::kString, file.pieces.size(), texts);
  out.array("tokenizer.ggml.scores", GgufType::kF32, file.pieces.size(), scores);
  out.array("tokenizer.ggml.token_type", GgufType::kI32, file.pieces.size(), types);
  out.entry("tokenizer.ggml.add_space_prefix", GgufType::kBool, flag(file.add_dummy_prefix));
  if (unigram) {
    out.entry("tokenizer.ggml.remove_extra_whitespaces", GgufType::kBool,
              flag(file.remove_extra_whitespaces));
    out.array("tokenizer.ggml.precompiled_charsmap", GgufType::kU8, file.charsmap.size(),
              Bytes().raw(std::string(file.charsmap)));
  }
  out.u32("tokenizer.ggml.unknown_token_id", unknown);
  out.u32("tokenizer.ggml.bos_token_id", 1).u32("tokenizer.ggml.eos_token_id", 2);
  return out.build();
}

/// wordpiece.json as llama.cpp's converter writes a BERT vocabulary, with or without its tokens
/// that have upper case.
inline std::string word_piece_gguf(bool cased) {
  const nlohmann::json file = read_golden("tokenizers/pieces/wordpiece.json");
  std::vector<std::string> tokens(file["model"]["vocab"].size());
  for (const auto& [token, id] : file["model"]["vocab"].items()) {
    const bool upper = !token.starts_with('[') &&
                       std::ranges::any_of(token, [](char c) { return c >= 'A' && c <= 'Z'; });
    tokens.at(id.get<size_t>()) = upper && !cased ? "[unused" + id.dump() + "]" : token;
  }
  Bytes texts, types;
  for (const std::string& token : tokens) {
    const bool bracketed = token.starts_with('[') && token.ends_with(']');
    texts.string(bracketed ? token : token.starts_with("##") ? token.substr(2) : "\u2581" + token);
    types.u32(bracketed && token.size() > 1 ? 3 : 1);
  }
  GgufBuilder out;
  out.text("general.architecture", "bert").text("tokenizer.ggml.model", "bert");
  out.array("tokenizer.ggml.tokens", GgufType::kString, tokens.size(), texts);
  out.array("tokenizer.ggml.token_type", GgufType::kI32, tokens.size(), types);
  out.u32("tokenizer.ggml.unknown_token_id", 1).u32("tokenizer.ggml.padding_token_id", 0);
  out.u32("tokenizer.ggml.cls_token_id", 2).u32("tokenizer.ggml.seperator_token_id", 3);
  return out.build();
}

}  // namespace mainstem::test
