#include <gtest/gtest.h>

#include <string>

#include "io/protobuf.h"
#include "io/test_files.h"

namespace mainstem {
namespace {

using test::expect_bad_input;
using namespace std::string_literals;
using Type = ProtobufReader::Field::Type;

TEST(Protobuf, ReadsEveryWireType) {
  const std::string bytes =
      "\x08\x96\x01\x12\x03"
      "abc\x1D\x00\x00\x80\x3F\x21\x01\x00\x00\x00\x00\x00\x00\x80"s;
  ProtobufReader reader(bytes, "message");
  auto field = reader.next();
  ASSERT_TRUE(field);
  EXPECT_EQ(field->number, 1u);
  EXPECT_EQ(protobuf_int32(*field, "a"), 150);
  EXPECT_TRUE(protobuf_bool(*field, "a"));
  expect_bad_input({"a", "32 bits", "a varint"}, [&] { protobuf_float(*field, "a"); });
  expect_bad_input({"a", "a length and bytes"}, [&] { protobuf_bytes(*field, "a"); });
  field = reader.next();
  EXPECT_EQ(protobuf_bytes(*field, "b"), "abc");
  field = reader.next();
  EXPECT_EQ(protobuf_float(*field, "c"), 1.0f);
  field = reader.next();
  EXPECT_EQ(field->number, 4u);
  EXPECT_EQ(field->type, Type::kFixed64);
  EXPECT_EQ(field->value, 0x8000000000000001u);
  EXPECT_FALSE(reader.next());
}

TEST(Protobuf, ReadsNegativeNumbers) {
  const std::string bytes = "\x08\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\x01"s;
  ProtobufReader reader(bytes, "message");
  EXPECT_EQ(protobuf_int32(*reader.next(), "a"), -1);
}

TEST(Protobuf, RefusesWhatLeavesTheMessage) {
  for (const std::string& bytes :
       {"\x08"s, "\x08\x80"s,
        "\x12\x04"s
        "abc",
        "\x12\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\x01"s, "\x1D\x00\x00"s, "\x21\x00"s, "\x00\x00"s,
        "\x0B"s, "\x0C"s, "\x0E"s, "\x08\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\x02"s,
        "\x08\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80\x01"s, "\xF8\xFF\xFF\xFF\xFF\x01\x00"s}) {
    expect_bad_input({"message"}, [&] {
      ProtobufReader reader(bytes, "message");
      while (reader.next()) {
      }
    });
  }
}

}  // namespace
}  // namespace mainstem
