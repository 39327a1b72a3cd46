#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "base/byte_reader.h"

namespace mainstem {

/// The fields of one protobuf message, in the order of the bytes (protobuf.dev, "Encoding").
/// Nested messages and texts are views; nothing is allocated. Error(kBadInput) for anything that
/// does not end inside the message, groups, and field numbers of 0.
class ProtobufReader {
 public:
  struct Field {
    uint32_t number = 0;
    uint64_t value = 0;        ///< of a varint, or the bits of a fixed field
    std::string_view bytes{};  ///< of a text, a nested message or a packed list
    enum class Type { kVarint, kFixed64, kBytes, kFixed32 } type = Type::kVarint;
  };

  /// `name` is what errors call the message.
  ProtobufReader(std::string_view message, const char* name);

  std::optional<Field> next();

 private:
  uint64_t varint();

  ByteReader reader_;
  const char* name_;
};

/// The value of a field, which must have the type; else an Error that names `what`.
bool protobuf_bool(const ProtobufReader::Field& field, const char* what);
int32_t protobuf_int32(const ProtobufReader::Field& field, const char* what);
float protobuf_float(const ProtobufReader::Field& field, const char* what);
std::string_view protobuf_bytes(const ProtobufReader::Field& field, const char* what);

}  // namespace mainstem
