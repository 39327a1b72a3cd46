#include "mainstem/tensor.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <limits>

#include "mainstem/error.h"

namespace mainstem {
namespace {

using testing::HasSubstr;

constexpr int64_t kLargest = std::numeric_limits<int64_t>::max();

struct TypeFacts {
  DType dtype;
  const char* name;
  int elements, bytes;
  bool is_float, is_quantised;
};

constexpr TypeFacts kFacts[] = {
    {DType::kBool, "bool", 1, 1, false, false},     {DType::kU8, "u8", 1, 1, false, false},
    {DType::kI8, "i8", 1, 1, false, false},         {DType::kU16, "u16", 1, 2, false, false},
    {DType::kI16, "i16", 1, 2, false, false},       {DType::kU32, "u32", 1, 4, false, false},
    {DType::kI32, "i32", 1, 4, false, false},       {DType::kU64, "u64", 1, 8, false, false},
    {DType::kI64, "i64", 1, 8, false, false},       {DType::kF16, "f16", 1, 2, true, false},
    {DType::kBF16, "bf16", 1, 2, true, false},      {DType::kF32, "f32", 1, 4, true, false},
    {DType::kF64, "f64", 1, 8, true, false},        {DType::kF8E4M3, "f8_e4m3", 1, 1, true, false},
    {DType::kF8E5M2, "f8_e5m2", 1, 1, true, false}, {DType::kQ4_0, "q4_0", 32, 18, false, true},
    {DType::kQ4_1, "q4_1", 32, 20, false, true},    {DType::kQ5_0, "q5_0", 32, 22, false, true},
    {DType::kQ5_1, "q5_1", 32, 24, false, true},    {DType::kQ8_0, "q8_0", 32, 34, false, true},
    {DType::kQ2_K, "q2_k", 256, 84, false, true},   {DType::kQ3_K, "q3_k", 256, 110, false, true},
    {DType::kQ4_K, "q4_k", 256, 144, false, true},  {DType::kQ5_K, "q5_k", 256, 176, false, true},
    {DType::kQ6_K, "q6_k", 256, 210, false, true},
};

TEST(DType, TableHoldsTheFactsOfEveryType) {
  int index = 0;
  for (const TypeFacts& facts : kFacts) {
    EXPECT_EQ(static_cast<int>(facts.dtype), index++);
    const DTypeInfo& type = info(facts.dtype);
    EXPECT_EQ(type.name, facts.name);
    EXPECT_EQ(name(facts.dtype), facts.name);
    EXPECT_EQ(type.block_elements, facts.elements) << facts.name;
    EXPECT_EQ(type.block_bytes, facts.bytes) << facts.name;
    EXPECT_EQ(type.is_float, facts.is_float) << facts.name;
    EXPECT_EQ(type.is_quantised, facts.is_quantised) << facts.name;
  }
  EXPECT_THROW(info(static_cast<DType>(index)), Error);
}

TEST(Shape, CountsElements) {
  EXPECT_EQ(element_count(Shape{}), 1);
  EXPECT_EQ(element_count(Shape{7}), 7);
  EXPECT_EQ(element_count(Shape{2, 3, 4}), 24);
  EXPECT_EQ(element_count(Shape{2, 0, 4}), 0);
  EXPECT_EQ(element_count(Shape{kLargest, 1}), kLargest);
}

TEST(Shape, RefusesWhatDoesNotFit) {
  EXPECT_THROW(element_count(Shape{-1}), Error);
  EXPECT_THROW(element_count(Shape{0, -1}), Error);
  EXPECT_THROW(element_count(Shape{int64_t{1} << 32, int64_t{1} << 31}), Error);
  // A zero does not hide the others: rows() multiplies them.
  EXPECT_THROW(element_count(Shape{0, kLargest, 2}), Error);
  EXPECT_THROW(element_count(Shape{kLargest, 2, 0}), Error);
}

TEST(Shape, CountsBytes) {
  EXPECT_EQ(byte_count(DType::kF32, Shape{2, 3}), 24);
  EXPECT_EQ(byte_count(DType::kF64, Shape{}), 8);
  EXPECT_EQ(byte_count(DType::kF64, Shape{0}), 0);
  EXPECT_EQ(byte_count(DType::kQ4_1, Shape{3, 64}), 3 * 2 * 20);
  EXPECT_EQ(byte_count(DType::kQ6_K, Shape{2, 256}), 2 * 210);
  EXPECT_THROW(byte_count(DType::kF64, Shape{kLargest / 4}), Error);
  // 3 x 32 elements, but no row of whole blocks.
  EXPECT_THROW(byte_count(DType::kQ8_0, Shape{32, 3}), Error);
  EXPECT_THROW(byte_count(DType::kQ8_0, Shape{}), Error);
  try {
    byte_count(DType::kQ4_K, Shape{2, 100});
    FAIL();
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(),
                 "last dimension of q4_k [2, 100]: expected a multiple of 256, got 100");
  }
}

TEST(Shape, IsWrittenAsInPyTorch) {
  EXPECT_EQ(to_string(Shape{}), "[]");
  EXPECT_EQ(to_string(Shape{2, 3, 4}), "[2, 3, 4]");
}

TEST(TensorView, FoldsLeadingDimensions) {
  const float data[24] = {};
  const TensorView view(DType::kF32, {2, 3, 4}, data);
  EXPECT_EQ(view.rank(), 3u);
  EXPECT_EQ(view.dim(1), 3);
  EXPECT_EQ(view.count(), 24);
  EXPECT_EQ(view.bytes(), 96);
  EXPECT_EQ(view.rows(), 6);
  EXPECT_EQ(view.columns(), 4);
  EXPECT_EQ(view.row_bytes(), 16);
  EXPECT_EQ(view.as<float>().size(), 24u);
  EXPECT_EQ(view.as<float>().data(), data);

  const TensorView scalar(DType::kF32, {}, data);
  EXPECT_EQ(scalar.rows(), 1);
  EXPECT_EQ(scalar.columns(), 1);
  const TensorView vector(DType::kF32, {5}, data);
  EXPECT_EQ(vector.rows(), 1);
  EXPECT_EQ(vector.columns(), 5);
  const TensorView empty(DType::kF32, {3, 0}, nullptr);
  EXPECT_EQ(empty.rows(), 3);
  EXPECT_EQ(empty.columns(), 0);
  EXPECT_EQ(TensorView().count(), 0);
}

TEST(TensorView, TakesRangesOfRows) {
  const std::vector<float> data = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11};
  const TensorView view(DType::kF32, {2, 3, 2}, data.data());
  const TensorView part = view.row_range(2, 5);
  EXPECT_EQ(part.shape(), (Shape{3, 2}));
  EXPECT_EQ(part.as<float>()[0], 4);
  EXPECT_EQ(part.bytes(), 24);
  EXPECT_EQ(view.row_range(6, 6).count(), 0);
  EXPECT_THROW(view.row_range(-1, 2), Error);
  EXPECT_THROW(view.row_range(0, 7), Error);
  EXPECT_THROW(view.row_range(3, 2), Error);

  std::vector<std::byte> blocks(4 * 2 * 34);
  const TensorView quantised(DType::kQ8_0, {4, 64}, blocks.data());
  EXPECT_EQ(quantised.row_bytes(), 68);
  EXPECT_EQ(quantised.row_range(3, 4).data(), blocks.data() + 3 * 68);
}

TEST(AlignedBuffer, IsAlignedAndZeroedOnRequest) {
  for (size_t bytes : {1u, 63u, 64u, 65u, 5000u}) {
    const AlignedBuffer buffer(bytes, true);
    EXPECT_EQ(buffer.size(), bytes);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(buffer.data()) % 64, 0u);
    for (size_t i = 0; i < bytes; ++i) ASSERT_EQ(buffer.data()[i], std::byte{0});
  }
  EXPECT_EQ(AlignedBuffer(0).data(), nullptr);
  EXPECT_EQ(AlignedBuffer().size(), 0u);
  EXPECT_THROW(AlignedBuffer{std::numeric_limits<size_t>::max()}, Error);
}

TEST(AlignedBuffer, SaysWhenThereIsNoMemory) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "sanitizers end the program instead";
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
  GTEST_SKIP() << "sanitizers end the program instead";
#endif
#endif
  try {
    const AlignedBuffer buffer(size_t{1} << 60);
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("memory: expected 1152921504606846976 more bytes"));
  }
}

TEST(Tensor, StartsZeroedAndSharesItsMemory) {
  Tensor tensor(DType::kF32, {3, 5});
  EXPECT_EQ(reinterpret_cast<uintptr_t>(tensor.data<float>()) % 64, 0u);
  for (float value : tensor.as<float>()) EXPECT_EQ(value, 0.0f);
  Tensor copy = tensor;
  copy.data<float>()[7] = 2.5f;
  EXPECT_EQ(tensor.as<float>()[7], 2.5f);
  EXPECT_EQ(tensor.count(), 15);
  EXPECT_EQ(tensor.dtype(), DType::kF32);
  EXPECT_EQ(Tensor().data<float>(), nullptr);
  EXPECT_EQ(Tensor(DType::kF32, {0, 4}).count(), 0);
}

TEST(Tensor, TakesValues) {
  const std::vector<float> floats = {1, 2, 3, 4, 5, 6};
  const Tensor tensor = Tensor::from_f32({2, 3}, floats);
  EXPECT_EQ(to_f32(tensor.view()), floats);
  EXPECT_EQ(Tensor::from_f64({1}, std::vector{0.1}).as<double>()[0], 0.1);
  EXPECT_EQ(Tensor::from_i64({}, std::vector<int64_t>{-3}).as<int64_t>()[0], -3);
  EXPECT_EQ(Tensor::from_f32({0}, {}).count(), 0);
  try {
    Tensor::from_f32({2, 2}, floats);
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("values for shape [2, 2]: expected 4, got 6"));
  }
}

}  // namespace
}  // namespace mainstem
