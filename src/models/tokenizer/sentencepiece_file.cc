#include "models/tokenizer/sentencepiece_file.h"

#include <string>

#include "io/protobuf.h"
#include "io/text.h"
#include "mainstem/error.h"

namespace mainstem::tokenizer {
namespace {

// The numbers are those of sentencepiece_model.proto.

SentencePieceFile::Piece read_piece(std::string_view message, size_t index) {
  SentencePieceFile::Piece piece;
  ProtobufReader reader(message, "a piece of the SentencePiece model");
  while (const auto field = reader.next()) {
    switch (field->number) {
      case 1:
        piece.text = protobuf_bytes(*field, "text of a piece");
        break;
      case 2:
        piece.score = protobuf_float(*field, "score of a piece");
        break;
      case 3: {
        const int32_t kind = protobuf_int32(*field, "type of a piece");
        if (kind < static_cast<int32_t>(TokenKind::kNormal) ||
            kind > static_cast<int32_t>(TokenKind::kByte)) {
          throw bad_input("type of piece " + std::to_string(index), "1 to 6", std::to_string(kind));
        }
        piece.kind = static_cast<TokenKind>(kind);
        break;
      }
      default:
        break;
    }
  }
  if (piece.text.empty()) {
    throw bad_input("piece " + std::to_string(index), "a text", "none");
  }
  return piece;
}

void read_trainer(std::string_view message, SentencePieceFile& file) {
  ProtobufReader reader(message, "trainer_spec of the SentencePiece model");
  while (const auto field = reader.next()) {
    switch (field->number) {
      case 3: {
        const int32_t type = protobuf_int32(*field, "model_type");
        if (type < 1 || type > 4) throw bad_input("model_type", "1 to 4", std::to_string(type));
        file.type = static_cast<SentencePieceFile::Type>(type);
        break;
      }
      case 24:
        file.spaces_as_suffix = protobuf_bool(*field, "treat_whitespace_as_suffix");
        break;
      case 35:
        file.byte_fallback = protobuf_bool(*field, "byte_fallback");
        break;
      case 40:
        file.unknown_id = protobuf_int32(*field, "unk_id");
        break;
      case 41:
        file.bos_id = protobuf_int32(*field, "bos_id");
        break;
      case 42:
        file.eos_id = protobuf_int32(*field, "eos_id");
        break;
      case 43:
        file.padding_id = protobuf_int32(*field, "pad_id");
        break;
      default:
        break;
    }
  }
}

void read_normalizer_spec(std::string_view message, SentencePieceFile& file) {
  ProtobufReader reader(message, "normalizer_spec of the SentencePiece model");
  while (const auto field = reader.next()) {
    switch (field->number) {
      case 2:
        file.charsmap = protobuf_bytes(*field, "precompiled_charsmap");
        break;
      case 3:
        file.add_dummy_prefix = protobuf_bool(*field, "add_dummy_prefix");
        break;
      case 4:
        file.remove_extra_whitespaces = protobuf_bool(*field, "remove_extra_whitespaces");
        break;
      case 5:
        file.escape_whitespaces = protobuf_bool(*field, "escape_whitespaces");
        break;
      default:
        break;
    }
  }
}

void refuse_denormalizer(std::string_view message) {
  ProtobufReader reader(message, "denormalizer_spec of the SentencePiece model");
  while (const auto field = reader.next()) {
    if (field->number == 2 && !protobuf_bytes(*field, "precompiled_charsmap").empty()) {
      throw bad_input("denormalizer_spec", "no rules", "some");
    }
  }
}

}  // namespace

SentencePieceFile read_sentencepiece(std::string_view bytes) {
  SentencePieceFile file;
  ProtobufReader reader(bytes, "SentencePiece model");
  while (const auto field = reader.next()) {
    switch (field->number) {
      case 1:
        file.pieces.push_back(read_piece(protobuf_bytes(*field, "pieces"), file.pieces.size()));
        break;
      case 2:
        read_trainer(protobuf_bytes(*field, "trainer_spec"), file);
        break;
      case 3:
        read_normalizer_spec(protobuf_bytes(*field, "normalizer_spec"), file);
        break;
      case 5:
        refuse_denormalizer(protobuf_bytes(*field, "denormalizer_spec"));
        break;
      default:
        break;
    }
  }
  if (file.type != SentencePieceFile::Type::kUnigram &&
      file.type != SentencePieceFile::Type::kBpe) {
    throw bad_input("model_type", "1 (unigram) or 2 (BPE)",
                    std::to_string(static_cast<int>(file.type)));
  }
  if (file.spaces_as_suffix) throw bad_input("treat_whitespace_as_suffix", "false", "true");
  return file;
}

}  // namespace mainstem::tokenizer
