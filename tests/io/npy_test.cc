#include <algorithm>
#include <string>
#include <vector>

#include "io/npy_format.h"
#include "io/test_files.h"
#include "mainstem/npz.h"

namespace mainstem {
namespace {

using test::Bytes;
using test::expect_bad_input;
using test::expect_error;

std::string npy(const std::string& dict, std::string_view data, uint8_t major = 1) {
  Bytes bytes;
  bytes.raw("\x93NUMPY").u8(major).u8(0);
  if (major == 1) {
    bytes.u16(static_cast<uint16_t>(dict.size()));
  } else {
    bytes.u32(static_cast<uint32_t>(dict.size()));
  }
  return bytes.raw(dict).raw(data).str();
}

std::string dict(const std::string& descr, const std::string& shape,
                 const std::string& fortran = "False") {
  return "{'descr': '" + descr + "', 'fortran_order': " + fortran + ", 'shape': " + shape + ", }\n";
}

Tensor parse(const std::string& content) { return parse_npy(test::as_bytes(content)); }

TEST(Npy, VersionsOneToThree) {
  const std::string data = Bytes().f32(1).f32(-2).str();
  for (const uint8_t version : {uint8_t{1}, uint8_t{2}, uint8_t{3}}) {
    const Tensor values = parse(npy(dict("<f4", "(2,)"), data, version));
    EXPECT_EQ(values.shape(), Shape{2});
    EXPECT_EQ(to_f32(values.view()), (std::vector<float>{1, -2}));
  }
  expect_bad_input({"npy version", "got 4.0"}, [&] { parse(npy(dict("<f4", "(2,)"), data, 4)); });
  expect_bad_input({"npy version"}, [&] { parse(npy(dict("<f4", "(2,)"), data, 0)); });
}

TEST(Npy, Types) {
  const auto dtype = [](const std::string& descr, size_t bytes) {
    return parse(npy(dict(descr, "()"), std::string(bytes, '\1'))).dtype();
  };
  EXPECT_EQ(dtype("|b1", 1), DType::kBool);
  EXPECT_EQ(dtype("|u1", 1), DType::kU8);
  EXPECT_EQ(dtype("|i1", 1), DType::kI8);
  EXPECT_EQ(dtype("<u2", 2), DType::kU16);
  EXPECT_EQ(dtype("<i2", 2), DType::kI16);
  EXPECT_EQ(dtype("<u4", 4), DType::kU32);
  EXPECT_EQ(dtype("=i4", 4), DType::kI32);
  EXPECT_EQ(dtype("<u8", 8), DType::kU64);
  EXPECT_EQ(dtype("<i8", 8), DType::kI64);
  EXPECT_EQ(dtype("<f2", 2), DType::kF16);
  EXPECT_EQ(dtype("<f4", 4), DType::kF32);
  EXPECT_EQ(dtype("<f8", 8), DType::kF64);
  EXPECT_EQ(dtype("<V2", 2), DType::kBF16);
  EXPECT_EQ(dtype("|V2", 2), DType::kBF16);
}

TEST(Npy, TypesThatAreRefusedByName) {
  for (const std::string descr :
       {"<c8", "<U3", "|S4", "<M8[ns]", "|V1", "<V4", "<f16", "f4", "", "<"}) {
    expect_bad_input({"descr", "\"" + descr + "\""},
                     [&] { parse(npy(dict(descr, "()"), std::string(64, '\1'))); });
  }
  expect_bad_input({"\"|O\"", "never unpickled"},
                   [] { parse(npy(dict("|O", "(1,)"), "\x80\x04.")); });
  expect_bad_input({"a structured one"}, [] {
    parse(npy("{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (1,), }", "1234"));
  });
}

TEST(Npy, BigEndianIsConverted) {
  const std::string data("\x3f\xc0\x00\x00\xc0\x00\x00\x00", 8);
  EXPECT_EQ(to_f32(parse(npy(dict(">f4", "(2,)"), data)).view()), (std::vector<float>{1.5f, -2}));
  const Tensor integers = parse(npy(dict(">i8", "(1,)"), std::string("\0\0\0\0\0\0\1\2", 8)));
  EXPECT_EQ(integers.as<int64_t>()[0], 258);
}

TEST(Npy, FortranOrderIsTransposed) {
  // Values 0..5 laid out so that the first dimension runs fastest.
  Bytes data;
  for (const float value : {0.f, 3.f, 1.f, 4.f, 2.f, 5.f}) data.f32(value);
  const Tensor matrix = parse(npy(dict("<f4", "(2, 3)", "True"), data.str()));
  EXPECT_EQ(matrix.shape(), (Shape{2, 3}));
  EXPECT_EQ(to_f32(matrix.view()), (std::vector<float>{0, 1, 2, 3, 4, 5}));
  // [2,3,4] as numpy.asfortranarray(arange(24)) stores it.
  Bytes cube;
  for (int k = 0; k < 4; ++k) {
    for (int j = 0; j < 3; ++j) {
      for (int i = 0; i < 2; ++i) cube.put(static_cast<int32_t>(i * 12 + j * 4 + k));
    }
  }
  const Tensor values = parse(npy(dict("<i4", "(2, 3, 4)", "True"), cube.str()));
  for (int i = 0; i < 24; ++i) EXPECT_EQ(values.as<int32_t>()[static_cast<size_t>(i)], i);
  EXPECT_EQ(parse(npy(dict("<f4", "(0, 3)", "True"), "")).count(), 0);
}

TEST(Npy, HeaderGrammar) {
  const std::string four = "abcd";
  EXPECT_EQ(parse(npy("{\"shape\":(1,),\"descr\":\"<f4\",\"fortran_order\":False}", four)).count(),
            1);
  EXPECT_EQ(parse(npy(dict("<f4", "(1L, 1L)"), four)).shape(), (Shape{1, 1}));
  EXPECT_EQ(parse(npy(dict("<f4", "()"), four)).shape(), Shape{});
  EXPECT_EQ(parse(npy(dict("<f4", "(1,1,)") + "      \n", four)).shape(), (Shape{1, 1}));
  for (const std::string bad : {
           "",
           "{",
           "{}",
           "x",
           "{'descr': '<f4'}",
           "{'descr': '<f4', 'fortran_order': False, 'shape': (1,)} x",
           "{'descr': '<f4' 'fortran_order': False, 'shape': (1,)}",
           "{'descr': '<f4', 'fortran_order': 0, 'shape': (1,)}",
           "{'descr': '<f4', 'fortran_order': False, 'shape': (1)}",
           "{'descr': '<f4', 'fortran_order': False, 'shape': [1]}",
           "{'descr': '<f4', 'fortran_order': False, 'shape': (-1,)}",
           "{'descr': '<f4', 'fortran_order': False, 'shape': (1.0,)}",
           "{'descr': '<f4', 'fortran_order': False, 'shape': (1 1)}",
           "{'descr': '<f4', 'fortran_order': False, 'shape': (1,",
           "{'descr': '<f4', 'fortran_order': False, 'shape': (9223372036854775808,)}",
           "{'descr': '<f4', 'fortran_order': False, 'shape': (1,), 'x': 1}",
           "{'descr': '<f4', 'descr': '<f4', 'fortran_order': False, 'shape': (1,)}",
           "{'descr': '<f\\x34', 'fortran_order': False, 'shape': (1,)}",
           "{'descr': '<f4, 'fortran_order': False, 'shape': (1,)}",
           "__import__('os').system('true')",
       }) {
    SCOPED_TRACE(bad);
    expect_bad_input({}, [&] { parse(npy(bad, four)); });
  }
}

TEST(Npy, SizesMustAgree) {
  expect_bad_input({"expected 12 bytes for f32 [3]", "got 8: the file is truncated"},
                   [] { parse(npy(dict("<f4", "(3,)"), "12345678")); });
  expect_bad_input({"got 13: more than the array"},
                   [] { parse(npy(dict("<f4", "(3,)"), "1234567890123")); });
  expect_bad_input({}, [] { parse(npy(dict("<f8", "(4611686018427387904, 4)"), "")); });
  expect_bad_input({}, [] { parse(npy(dict("<f8", "(2305843009213693952,)"), "")); });
  expect_bad_input({"npy header length", "4294967295"}, [] {
    parse(Bytes().raw("\x93NUMPY").u8(2).u8(0).u32(UINT32_MAX).raw("{}").str());
  });
  const std::string good = npy(dict("<f4", "(1,)"), "abcd");
  for (size_t size = 0; size < good.size(); ++size) {
    expect_bad_input({}, [&] { parse(good.substr(0, size)); });
  }
}

TEST(Npy, OtherContentIsNamed) {
  expect_bad_input({"npy magic", "a zip archive"}, [] { parse("PK\x03\x04 and more bytes"); });
  expect_bad_input({"Git LFS"}, [] { parse("version https://git-lfs.github.com/spec/v1"); });
}

TEST(Npy, WriteAndReadBack) {
  const test::TempDir dir;
  for (const Shape& shape : {Shape{}, Shape{5}, Shape{2, 3}, Shape{0, 7}, Shape{1, 1, 1, 1, 2}}) {
    for (const DType dtype : {DType::kF32, DType::kBF16, DType::kBool, DType::kI64, DType::kF16}) {
      Tensor values(dtype, shape);
      const std::span<std::byte> raw(values.data<std::byte>(),
                                     static_cast<size_t>(values.view().bytes()));
      for (size_t i = 0; i < raw.size(); ++i) raw[i] = static_cast<std::byte>(i % 2);
      write_npy(dir / "x.npy", values.view());
      const std::string content = test::read_file(dir / "x.npy");
      EXPECT_EQ((content.size() - raw.size()) % 64, 0u);
      const Tensor back = read_npy(dir / "x.npy");
      EXPECT_EQ(back.dtype(), dtype);
      EXPECT_EQ(back.shape(), shape);
      EXPECT_TRUE(std::equal(raw.begin(), raw.end(), back.view().data()));
    }
  }
  EXPECT_EQ(dir.file_count(), 1u);
}

TEST(Npy, HeaderTextIsNumpys) {
  const std::string text = npy_header_text(DType::kF32, Shape{3, 4});
  EXPECT_EQ(text.substr(0, 10), std::string("\x93NUMPY\x01\x00\x76\x00", 10));
  EXPECT_EQ(text.substr(10, 57),
            "{'descr': '<f4', 'fortran_order': False, 'shape': (3, 4)"
            ",");
  EXPECT_EQ(text.size(), 128u);
  EXPECT_EQ(text.back(), '\n');
  EXPECT_THAT(npy_header_text(DType::kBF16, Shape{3}),
              testing::HasSubstr("'<V2', 'fortran_order': False, 'shape': (3,)"));
}

TEST(Npy, WriterRefusesTypesThatNumpyLacks) {
  const test::TempDir dir;
  for (const DType dtype : {DType::kQ8_0, DType::kF8E4M3, DType::kF8E5M2}) {
    const Tensor values(dtype, {32});
    expect_error(ErrorCode::kUsage, {"a type that numpy has", std::string(name(dtype)), "x.npy"},
                 [&] { write_npy(dir / "x.npy", values.view()); });
  }
  EXPECT_EQ(dir.file_count(), 0u);
}

}  // namespace
}  // namespace mainstem
