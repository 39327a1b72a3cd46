// Split GGUF files: what holds together, and each way of not doing so.

#include <string>
#include <vector>

#include "io/gguf_builder.h"
#include "models/gguf_parts.h"

namespace mainstem {
namespace {

using test::GgufBuilder;
using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr uint32_t kF32 = 0;

struct Part {
  int64_t number = 0, count = 3;
  std::vector<std::string> tensors;
  std::string name = {};  ///< of the file, where it is not the one that belongs to the number
};

std::string file_name(int64_t number, int64_t count) {
  const auto digits = [](int64_t value) {
    const std::string text = std::to_string(value);
    return std::string(5 - text.size(), '0') + text;
  };
  return "model-" + digits(number + 1) + "-of-" + digits(count) + ".gguf";
}

class GgufPartsTest : public ::testing::Test {
 protected:
  GgufBuilder builder_of(const Part& part) const {
    GgufBuilder builder;
    if (part.number == 0) builder.text("general.architecture", "llama");
    builder.u32("split.no", static_cast<uint32_t>(part.number));
    builder.u32("split.count", static_cast<uint32_t>(part.count));
    for (const std::string& name : part.tensors) {
      builder.tensor(name, kF32, {2}, test::Bytes().f32(1).f32(2).str());
    }
    return builder;
  }
  void write(const Part& part) {
    const std::string name = part.name.empty() ? file_name(part.number, part.count) : part.name;
    test::write_file(folder_ / name, builder_of(part).build());
  }
  void write_three() {
    write({.number = 0, .tensors = {"a"}});
    write({.number = 1, .tensors = {"b", "c"}});
    write({.number = 2, .tensors = {"d"}});
  }
  std::string error_of(const std::string& name) const {
    try {
      GgufParts::open(folder_ / name);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kBadInput);
      return error.what();
    }
    return "no error";
  }

  test::TempDir folder_;
};

TEST_F(GgufPartsTest, AnyPartOpensAllInOrder) {
  write_three();
  for (const int64_t given : {0, 1, 2}) {
    const GgufParts parts = GgufParts::open(folder_ / file_name(given, 3));
    ASSERT_EQ(parts.files().size(), 3U);
    EXPECT_EQ(parts.first().need_string("general.architecture"), "llama");
    std::vector<std::string> names;
    for (const StoredTensor* tensor : parts.tensors()) names.push_back(tensor->name);
    EXPECT_EQ(names, (std::vector<std::string>{"a", "b", "c", "d"}));
    const auto [tensor, part] = parts.find("c");
    ASSERT_NE(tensor, nullptr);
    EXPECT_EQ(part, parts.files()[1]);
    EXPECT_EQ(parts.find("e").first, nullptr);
  }
}

TEST_F(GgufPartsTest, AWholeFileMayCountItselfAsOneOrNone) {
  for (const int64_t count : {0, 1}) {
    write({.count = count, .tensors = {"a"}, .name = "whole.gguf"});
    EXPECT_EQ(GgufParts::open(folder_ / "whole.gguf").files().size(), 1U);
  }
}

TEST_F(GgufPartsTest, AMissingPartIsNamed) {
  write_three();
  std::filesystem::remove(folder_ / file_name(1, 3));
  EXPECT_THAT(error_of(file_name(0, 3)), AllOf(HasSubstr("part 2 of 3"), HasSubstr("no such file"),
                                               HasSubstr(file_name(1, 3))));
}

TEST_F(GgufPartsTest, ADamagedPartIsNamed) {
  write_three();
  test::write_file(folder_ / file_name(2, 3), "GGUF");
  EXPECT_THAT(error_of(file_name(0, 3)), HasSubstr(file_name(2, 3)));
}

TEST_F(GgufPartsTest, PartsInAnotherOrder) {
  write_three();
  write({.number = 1, .tensors = {"d"}, .name = file_name(2, 3)});
  EXPECT_THAT(error_of(file_name(0, 3)),
              AllOf(HasSubstr("split.no: expected 2, got 1"), HasSubstr("part 3 of 3"),
                    HasSubstr(file_name(2, 3))));
}

TEST_F(GgufPartsTest, APartOfAnotherSplit) {
  write_three();
  write({.number = 1, .count = 4, .tensors = {"b"}, .name = file_name(1, 3)});
  EXPECT_THAT(error_of(file_name(0, 3)),
              AllOf(HasSubstr("split.count: expected 3, got 4"), HasSubstr(file_name(1, 3))));
  test::write_file(folder_ / file_name(1, 3), GgufBuilder().text("x", "y").build());
  EXPECT_THAT(error_of(file_name(0, 3)), HasSubstr("split.no: expected 1, got none"));
}

TEST_F(GgufPartsTest, TheGivenNameMustSayThePart) {
  write_three();
  write({.number = 0, .tensors = {"a"}, .name = "renamed.gguf"});
  EXPECT_THAT(error_of("renamed.gguf"),
              AllOf(HasSubstr("-00001-of-00003.gguf"), HasSubstr("renamed.gguf")));
  // The second name over the first part's content.
  write({.number = 0, .tensors = {"a"}, .name = file_name(1, 3)});
  EXPECT_THAT(error_of(file_name(1, 3)), HasSubstr("-00001-of-00003.gguf"));
}

TEST_F(GgufPartsTest, ATensorInTwoParts) {
  write_three();
  write({.number = 2, .tensors = {"d", "b"}});
  EXPECT_THAT(error_of(file_name(0, 3)),
              AllOf(HasSubstr("tensor b"), HasSubstr(file_name(1, 3)), HasSubstr("part 3 of 3")));
}

TEST_F(GgufPartsTest, CountsThatCannotBe) {
  const auto with = [&](uint32_t number, uint32_t count) {
    write({.number = number, .count = count, .tensors = {"a"}, .name = "m-00001-of-00003.gguf"});
    return error_of("m-00001-of-00003.gguf");
  };
  EXPECT_THAT(with(0, uint32_t{1} << 31), HasSubstr("split.count: expected 1 to 10000 parts"));
  EXPECT_THAT(with(0, UINT32_MAX), HasSubstr("split.count"));
  EXPECT_THAT(with(3, 3), HasSubstr("split.no: expected 0 to 2, got 3"));
  EXPECT_THAT(with(0, 10000), HasSubstr("-00001-of-10000.gguf"));
  test::write_file(folder_ / "m-00001-of-00003.gguf",
                   GgufBuilder().text("split.no", "0").u32("split.count", 3).build());
  EXPECT_THAT(error_of("m-00001-of-00003.gguf"), HasSubstr("split.no"));
  test::write_file(folder_ / "m-00001-of-00003.gguf", GgufBuilder().u32("split.count", 3).build());
  EXPECT_THAT(error_of("m-00001-of-00003.gguf"), HasSubstr("split.no"));
}

TEST_F(GgufPartsTest, TheSumOfTensorsIsHeldToTheFirstPart) {
  write_three();
  GgufBuilder first = builder_of({.number = 0, .tensors = {"a"}});
  first.u32("split.tensors.count", 5);
  test::write_file(folder_ / file_name(0, 3), first.build());
  EXPECT_THAT(error_of(file_name(1, 3)),
              AllOf(HasSubstr("expected 5, got 4"), HasSubstr(file_name(0, 3))));
}

}  // namespace
}  // namespace mainstem
