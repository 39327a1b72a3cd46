#include "base/byte_reader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <limits>

#include "base/checked.h"

namespace mainstem {
namespace {

using testing::HasSubstr;

template <typename Call>
std::string message_of(Call&& call) {
  try {
    call();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kBadInput);
    return error.what();
  }
  return "nothing was thrown";
}

TEST(Checked, MultipliesUpToTheLimit) {
  constexpr int64_t kMax = std::numeric_limits<int64_t>::max();
  EXPECT_EQ(checked_mul<int64_t>(kMax, 1, "n"), kMax);
  EXPECT_EQ(checked_mul<int64_t>(int64_t{1} << 31, int64_t{1} << 31, "n"), int64_t{1} << 62);
  EXPECT_EQ(checked_mul<uint64_t>(uint64_t{1} << 32, (uint64_t{1} << 32) - 1, "n"),
            0xffffffff00000000u);
  EXPECT_THROW(checked_mul<int64_t>(kMax / 2 + 1, 2, "n"), Error);
  EXPECT_THROW(checked_mul<uint64_t>(uint64_t{1} << 32, uint64_t{1} << 32, "n"), Error);
  EXPECT_THAT(message_of([] { checked_mul<uint64_t>(uint64_t{1} << 63, 2, "tensor bytes"); }),
              HasSubstr("tensor bytes: expected a product that fits 64 bits, got "
                        "9223372036854775808 x 2"));
}

TEST(Checked, AddsUpToTheLimit) {
  constexpr uint64_t kMax = std::numeric_limits<uint64_t>::max();
  EXPECT_EQ(checked_add<uint64_t>(kMax - 1, 1, "n"), kMax);
  EXPECT_THROW(checked_add<uint64_t>(kMax, 1, "n"), Error);
  EXPECT_THROW(checked_add<int64_t>(std::numeric_limits<int64_t>::min(), -1, "n"), Error);
}

class ByteReaderTest : public testing::Test {
 protected:
  static constexpr std::array<unsigned char, 12> kRaw = {1,   2,   3,   4,    'a', 'b',
                                                         'c', 'd', 'e', 0xff, 9,   10};
  ByteReader reader{std::as_bytes(std::span(kRaw))};
};

TEST_F(ByteReaderTest, ReadsLittleEndianInOrder) {
  EXPECT_EQ(reader.read<uint16_t>("a"), 0x0201);
  EXPECT_EQ(reader.read<uint8_t>("b"), 3);
  EXPECT_EQ(reader.read<uint8_t>("c"), 4);
  EXPECT_EQ(reader.take_text(5, "d"), "abcde");
  EXPECT_EQ(reader.read<int8_t>("e"), -1);
  EXPECT_EQ(reader.offset(), 10u);
  EXPECT_EQ(reader.remaining(), 2u);
  EXPECT_EQ(reader.take(2, "f").size(), 2u);
  EXPECT_EQ(reader.take(0, "g").size(), 0u);
  EXPECT_EQ(reader.remaining(), 0u);
}

TEST_F(ByteReaderTest, RefusesToReadPastTheEndAndStaysWhereItIs) {
  reader.take(9, "start");
  EXPECT_EQ(message_of([&] { reader.read<uint32_t>("key length"); }),
            "key length: expected 4 bytes at offset 9, got 3 bytes before the end");
  EXPECT_EQ(reader.offset(), 9u);
  EXPECT_THROW(reader.take(std::numeric_limits<uint64_t>::max(), "all"), Error);
  EXPECT_THROW(reader.take_text(4, "text"), Error);
  EXPECT_EQ(reader.read<uint8_t>("still there"), 0xff);
}

TEST_F(ByteReaderTest, BoundsACountByTheBytesThatFollow) {
  reader.take(2, "start");  // 10 bytes left
  reader.expect_records(5, 2, "pairs");
  reader.expect_records(3, 3, "triples");
  reader.expect_records(0, 100, "none");
  reader.expect_records(1000, 0, "empty records");
  EXPECT_EQ(message_of([&] { reader.expect_records(6, 2, "pairs"); }),
            "pairs: expected at most 5 (the bytes that follow hold no more), got 6");
  EXPECT_THROW(reader.expect_records(4, 3, "triples"), Error);
  EXPECT_THROW(reader.expect_records(uint64_t{1} << 60, 16, "wrap"), Error);
}

TEST_F(ByteReaderTest, SeeksWithinTheBytes) {
  reader.seek(12, "end");
  EXPECT_EQ(reader.remaining(), 0u);
  reader.seek(4, "text");
  EXPECT_EQ(reader.take_text(1, "a"), "a");
  EXPECT_EQ(message_of([&] { reader.seek(13, "data offset"); }),
            "data offset: expected an offset of at most 12, got 13");
  EXPECT_EQ(reader.offset(), 5u);
}

TEST(ByteReaderEmpty, HoldsNothing) {
  ByteReader reader({});
  EXPECT_EQ(reader.size(), 0u);
  EXPECT_EQ(reader.take(0, "nothing").size(), 0u);
  EXPECT_THROW(reader.read<uint8_t>("one"), Error);
}

}  // namespace
}  // namespace mainstem
