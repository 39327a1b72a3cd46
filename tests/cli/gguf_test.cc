// GGUF files that no converter writes, as a user meets them: one line, exit code 3.

#include "cli/run_command.h"
#include "io/gguf_builder.h"

namespace mainstem::cli_test {
namespace {

test::GgufBuilder words() {
  test::GgufBuilder builder;
  builder.text("general.architecture", "llama");
  builder.u32("llama.context_length", 64).u32("llama.embedding_length", 8);
  builder.u32("llama.feed_forward_length", 8).u32("llama.attention.head_count", 2);
  builder.entry("llama.attention.layer_norm_rms_epsilon", GgufType::kF32, test::Bytes().f32(1e-5F));
  constexpr uint32_t kI8 = 24;
  builder.tensor("token_embd.weight", kI8, {8, 4}, std::string(32, '\1'));
  return builder;
}

TEST(HostileGguf, WordsThatCannotBe) {
  const Scratch scratch;
  const auto inspected = [&](const test::GgufBuilder& builder) {
    const auto path = test::write_file(scratch / "m.gguf", builder.build());
    return run({"inspect", path.string()});
  };
  EXPECT_TRUE(fails(inspected(words()), 3, "llama.block_count"));
  EXPECT_TRUE(fails(inspected(words().entry("llama.block_count", GgufType::kU64,
                                            test::Bytes().u64(uint64_t{1} << 40))),
                    3, "number of blocks"));
  EXPECT_TRUE(fails(inspected(words().text("llama.block_count", "2")), 3, "llama.block_count"));
  EXPECT_TRUE(fails(inspected(words().u32("llama.block_count", 1).u32("llama.made_up", 1)), 3,
                    "llama.made_up"));
  EXPECT_TRUE(fails(inspected(words().u32("llama.block_count", 1)), 3, "blk.0.attn_norm.weight"));
}

TEST(HostileGguf, APartIsMissing) {
  const Scratch scratch;
  const auto path =
      test::write_file(scratch / "m-00002-of-00003.gguf",
                       test::GgufBuilder().u32("split.no", 1).u32("split.count", 3).build());
  const Outcome outcome = run({"inspect", path.string()});
  EXPECT_TRUE(fails(outcome, 3, "part 1 of 3"));
  EXPECT_TRUE(fails(outcome, 3, "m-00001-of-00003.gguf"));
}

}  // namespace
}  // namespace mainstem::cli_test
