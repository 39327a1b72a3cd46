#include "io/protobuf.h"

#include <bit>
#include <span>
#include <string>

#include "mainstem/error.h"

namespace mainstem {
namespace {

using Field = ProtobufReader::Field;

void need_type(const Field& field, Field::Type type, const char* what) {
  constexpr const char* kNames[] = {"a varint", "64 bits", "a length and bytes", "32 bits"};
  if (field.type == type) return;
  throw bad_input(what, kNames[static_cast<size_t>(type)], kNames[static_cast<size_t>(field.type)]);
}

}  // namespace

ProtobufReader::ProtobufReader(std::string_view message, const char* name)
    : reader_(std::as_bytes(std::span(message))), name_(name) {}

uint64_t ProtobufReader::varint() {
  uint64_t value = 0;
  for (int shift = 0; shift < 64; shift += 7) {
    const auto byte = reader_.read<uint8_t>(name_);
    const uint64_t part = byte & 0x7Fu;
    if (shift == 63 && part > 1) break;
    value |= part << shift;
    if ((byte & 0x80) == 0) return value;
  }
  throw bad_input(name_, "numbers of at most 64 bits", "a longer one")
      .in("offset " + std::to_string(reader_.offset()));
}

std::optional<Field> ProtobufReader::next() {
  if (reader_.remaining() == 0) return std::nullopt;
  const uint64_t tag = varint();
  Field field;
  constexpr uint64_t kMaxNumber = (uint64_t{1} << 29) - 1;
  if (tag >> 3 == 0 || tag >> 3 > kMaxNumber) {
    throw bad_input(name_, "field numbers from 1 to " + std::to_string(kMaxNumber),
                    std::to_string(tag >> 3))
        .in("offset " + std::to_string(reader_.offset()));
  }
  field.number = static_cast<uint32_t>(tag >> 3);
  switch (tag & 7) {
    case 0:
      field.type = Field::Type::kVarint;
      field.value = varint();
      break;
    case 1:
      field.type = Field::Type::kFixed64;
      field.value = reader_.read<uint64_t>(name_);
      break;
    case 2:
      field.type = Field::Type::kBytes;
      field.bytes = reader_.take_text(varint(), name_);
      break;
    case 5:
      field.type = Field::Type::kFixed32;
      field.value = reader_.read<uint32_t>(name_);
      break;
    default:
      throw bad_input(name_, "fields of wire type 0, 1, 2 or 5", std::to_string(tag & 7))
          .in("offset " + std::to_string(reader_.offset()));
  }
  return field;
}

bool protobuf_bool(const Field& field, const char* what) {
  need_type(field, Field::Type::kVarint, what);
  return field.value != 0;
}

int32_t protobuf_int32(const Field& field, const char* what) {
  need_type(field, Field::Type::kVarint, what);
  // Negative numbers are written as 64 bits; what does not fit is cut, as protobuf does.
  return static_cast<int32_t>(static_cast<uint32_t>(field.value));
}

float protobuf_float(const Field& field, const char* what) {
  need_type(field, Field::Type::kFixed32, what);
  return std::bit_cast<float>(static_cast<uint32_t>(field.value));
}

std::string_view protobuf_bytes(const Field& field, const char* what) {
  need_type(field, Field::Type::kBytes, what);
  return field.bytes;
}

}  // namespace mainstem
