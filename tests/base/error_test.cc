#include "mainstem/error.h"

#include <gtest/gtest.h>

#include <stdexcept>

namespace mainstem {
namespace {

TEST(Error, ComposesAllParts) {
  const Error error = bad_input("head count", "a divisor of 576", "10")
                          .in("attention.head_count")
                          .in("model.gguf")
                          .hint("The file may be truncated.");
  EXPECT_STREQ(
      error.what(),
      "head count: expected a divisor of 576, got 10; in attention.head_count, model.gguf; "
      "The file may be truncated.");
}

TEST(Error, LeavesOutWhatIsMissing) {
  EXPECT_STREQ(bad_input("magic").what(), "magic");
  EXPECT_STREQ(bad_input("magic", "GGUF").what(), "magic: expected GGUF");
  EXPECT_STREQ(bad_input("magic", "", "ZIP").what(), "magic: got ZIP");
  EXPECT_STREQ(bad_input("magic").in("file").what(), "magic; in file");
  EXPECT_STREQ(bad_input("magic").hint("Try again.").what(), "magic; Try again.");
}

TEST(Error, KeepsItsCode) {
  EXPECT_EQ(usage_error("flag").code(), ErrorCode::kUsage);
  EXPECT_EQ(bad_input("file").code(), ErrorCode::kBadInput);
  EXPECT_EQ(internal_error("fault").code(), ErrorCode::kInternal);
  EXPECT_EQ(static_cast<int>(ErrorCode::kUsage), 2);
  EXPECT_EQ(static_cast<int>(ErrorCode::kBadInput), 3);
  EXPECT_EQ(static_cast<int>(ErrorCode::kInternal), 4);
}

TEST(Error, AddsToANamedError) {
  Error error = usage_error("prompt");
  error.in("request").hint("Give one.");
  EXPECT_STREQ(error.what(), "prompt; in request; Give one.");
  EXPECT_EQ(error.context(), std::vector<std::string>{"request"});
}

TEST(Error, WithContextAddsFromTheInsideOut) {
  try {
    with_context("outer",
                 [] { with_context("inner", [] { throw bad_input("dtype", "f32", "q9"); }); });
    FAIL() << "nothing was thrown";
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "dtype: expected f32, got q9; in inner, outer");
  }
}

TEST(Error, WithContextPassesResultsAndOtherExceptions) {
  int value = 3;
  int& same = with_context("here", [&]() -> int& { return value; });
  EXPECT_EQ(&same, &value);
  EXPECT_THROW(with_context("here", [] { throw std::runtime_error("other"); }), std::runtime_error);
}

}  // namespace
}  // namespace mainstem
