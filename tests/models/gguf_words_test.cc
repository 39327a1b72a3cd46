// What the readers of GGUF families make of words that no converter writes: for every architecture
// and every word one error that names it, and no memory to speak of.

#include <sys/resource.h>

#include <cmath>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "io/gguf_builder.h"
#include "models/loaded_files.h"

namespace mainstem {
namespace {

using test::Bytes;
using test::GgufBuilder;
using ::testing::HasSubstr;

/// A value as it lies in the file.
struct Value {
  GgufType type = GgufType::kU32;
  std::string bytes;
};
Value number(uint32_t value) { return {GgufType::kU32, Bytes().u32(value).str()}; }
Value wide(int64_t value) { return {GgufType::kI64, Bytes().put(value).str()}; }
Value real(float value) { return {GgufType::kF32, Bytes().f32(value).str()}; }
Value flag(bool value) { return {GgufType::kBool, Bytes().u8(value ? 1 : 0).str()}; }
Value text(std::string_view value) { return {GgufType::kString, Bytes().string(value).str()}; }
Value list(std::initializer_list<uint32_t> values) {
  Bytes bytes;
  bytes.u32(static_cast<uint32_t>(GgufType::kU32)).u64(values.size());
  for (const uint32_t value : values) bytes.u32(value);
  return {GgufType::kArray, bytes.str()};
}

using Words = std::map<std::string, Value>;

struct Arch {
  std::string name;
  std::string eps = "attention.layer_norm_rms_epsilon";
  Words more = {};  ///< that this architecture must have
};

const std::vector<Arch>& archs() {
  static const std::string kLayer = "attention.layer_norm_epsilon";
  static const std::vector<Arch> all = {
      {"llama"},
      {"granite"},
      {"qwen2"},
      {"qwen3"},
      {"gemma"},
      {"gemma2"},
      {"gemma3", Arch{}.eps, {{"attention.sliding_window", number(5)}}},
      {"olmo", kLayer},
      {"olmo2"},
      {"phi3"},
      {"gpt2", kLayer},
      {"gptneox", kLayer},
      {"falcon", kLayer},
      {"stablelm", kLayer},
      {"starcoder2", kLayer},
      {"phi2", kLayer},
      {"command-r", kLayer, {{"logit_scale", real(0.5F)}}},
      {"cohere2", kLayer, {{"logit_scale", real(0.5F)}, {"attention.sliding_window", number(5)}}},
      {"bert", kLayer},
  };
  return all;
}

Words words_of(const Arch& arch) {
  Words words = arch.more;
  words["context_length"] = number(64);
  words["embedding_length"] = number(24);
  words["block_count"] = number(3);
  words["feed_forward_length"] = number(22);
  words["attention.head_count"] = number(4);
  words["attention.head_count_kv"] = number(2);
  words[arch.eps] = real(1e-5F);
  return words;
}

std::string file_of(const Arch& arch, const Words& words,
                    const std::vector<uint64_t>& table = {24, 41}) {
  GgufBuilder builder;
  builder.text("general.architecture", arch.name);
  for (const auto& [key, value] : words) {
    builder.entry(arch.name + "." + key, static_cast<uint32_t>(value.type), value.bytes);
  }
  uint64_t count = 1;
  for (const uint64_t size : table) count *= size;
  constexpr uint32_t kI8 = 24;
  builder.tensor("token_embd.weight", kI8, table, std::string(count, '\1'));
  return builder.build();
}

ModelSpec spec_of(const std::string& bytes) {
  const auto file = GgufFile::from_bytes(test::as_bytes(bytes), "words.gguf");
  GgufWords words(file, [&](std::string_view name) { return file.find(name); });
  return read_spec(family_of(file), words);
}

/// The message, which names the file once.
std::string error_of(const std::string& bytes) {
  try {
    spec_of(bytes);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kBadInput) << error.what();
    const std::string message = error.what();
    const size_t place = message.find("words.gguf");
    EXPECT_NE(place, std::string::npos) << message;
    EXPECT_EQ(message.find("words.gguf", place + 1), std::string::npos) << message;
    EXPECT_LT(message.size(), 400U) << message;
    return message;
  }
  return "no error";
}

TEST(GgufWords, EveryArchitectureReadsItsWords) {
  size_t count = 0;
  for (const Family& family : families()) count += family.gguf_archs.size();
  EXPECT_EQ(archs().size(), count) << "an architecture is not in the table above";
  for (const Arch& arch : archs()) {
    SCOPED_TRACE(arch.name);
    const ModelSpec spec = spec_of(file_of(arch, words_of(arch)));
    EXPECT_EQ(spec.vocab_size, 41);
    EXPECT_EQ(spec.context_length, 64);
    ASSERT_EQ(spec.stack.blocks.size(), 3U);
    const BlockSpec& block = spec.stack.blocks[0];
    EXPECT_EQ(block.width, 24);
    EXPECT_EQ(block.mlp.hidden, 22);
    EXPECT_EQ(block.attention.heads, 4);
    EXPECT_EQ(block.attention.kv_heads, 2);
    EXPECT_EQ(block.attention.head_width, 6);
    EXPECT_EQ(block.norm.eps, 1e-5F);
  }
}

TEST(GgufWords, AMissingWordIsNamed) {
  const std::map<std::string, std::string> optional = {{"context_length", ""},
                                                       {"attention.head_count_kv", ""}};
  for (const Arch& arch : archs()) {
    SCOPED_TRACE(arch.name);
    for (const auto& [key, value] : words_of(arch)) {
      if (optional.contains(key)) continue;
      Words words = words_of(arch);
      words.erase(key);
      EXPECT_THAT(error_of(file_of(arch, words)), HasSubstr(arch.name + "." + key));
    }
  }
}

TEST(GgufWords, AnUnknownWordIsNamed) {
  for (const Arch& arch : archs()) {
    Words words = words_of(arch);
    words["attention.made_up"] = number(1);
    EXPECT_THAT(error_of(file_of(arch, words)), HasSubstr(arch.name + ".attention.made_up"));
  }
}

TEST(GgufWords, AWordOfAnotherTypeIsNamed) {
  for (const Arch& arch : archs()) {
    SCOPED_TRACE(arch.name);
    for (const auto& [key, honest] : words_of(arch)) {
      for (const Value& value : {list({4, 4, 4}), text("4"), flag(true)}) {
        Words words = words_of(arch);
        words[key] = value;
        EXPECT_THAT(error_of(file_of(arch, words)), HasSubstr(arch.name + "." + key));
      }
      if (honest.type == GgufType::kF32) continue;
      Words words = words_of(arch);
      words[key] = real(4);
      EXPECT_THAT(error_of(file_of(arch, words)), HasSubstr(arch.name + "." + key));
    }
  }
}

struct Hostile {
  std::string key;
  Value value;
  std::string named;  ///< in the message
};

const std::vector<Hostile>& hostile_sizes() {
  constexpr int64_t kHuge = int64_t{1} << 40;
  constexpr int64_t kMost = std::numeric_limits<int64_t>::max();
  static const std::vector<Hostile> all = {
      {"block_count", number(0), "number of blocks"},
      {"block_count", wide(-1), "number of blocks"},
      {"block_count", wide(kHuge), "number of blocks"},
      {"block_count", {GgufType::kU64, Bytes().u64(UINT64_MAX).str()}, "block_count"},
      {"attention.head_count", number(0), "head_count"},
      {"attention.head_count", wide(-4), "head_count"},
      {"attention.head_count", wide(kHuge), ""},
      {"attention.head_count_kv", number(0), "key/value heads"},
      {"attention.head_count_kv", wide(-2), "key/value heads"},
      {"attention.head_count_kv", number(3), "kv heads"},
      {"attention.head_count_kv", wide(kHuge), "key/value heads"},
      {"embedding_length", number(0), ""},
      {"embedding_length", wide(-24), ""},
      {"embedding_length", number(25), "embedding_length"},
      {"embedding_length", wide(kMost - 3), ""},
      {"feed_forward_length", number(0), "hidden width"},
      {"feed_forward_length", wide(-1), "hidden width"},
      {"feed_forward_length", wide(kHuge), "hidden width"},
      {"context_length", wide(-1), "context"},
      {"context_length", wide(kMost), "context"},
      {"attention.key_length", number(0), ""},
      {"attention.key_length", wide(-6), ""},
      {"attention.key_length", wide(kHuge), ""},
      {"attention.value_length", number(8), "value_length"},
      {"expert_count", number(8), "expert_count"},
  };
  return all;
}

TEST(GgufWords, SizesThatCannotBe) {
  for (const Arch& arch : archs()) {
    for (const Hostile& each : hostile_sizes()) {
      SCOPED_TRACE(arch.name + "." + each.key);
      Words words = words_of(arch);
      words[each.key] = each.value;
      const std::string message = error_of(file_of(arch, words));
      EXPECT_NE(message, "no error");
      EXPECT_THAT(message, HasSubstr(each.named));
    }
  }
}

TEST(GgufWords, EpsMustBeANumberThatIsNotNegative) {
  for (const Arch& arch : archs()) {
    for (const float eps : {-1e-5F, std::nanf(""), std::numeric_limits<float>::infinity()}) {
      Words words = words_of(arch);
      words[arch.eps] = real(eps);
      EXPECT_THAT(error_of(file_of(arch, words)), HasSubstr("eps"));
    }
  }
}

const Arch& arch_of(const std::string& name) {
  for (const Arch& arch : archs()) {
    if (arch.name == name) return arch;
  }
  throw std::runtime_error("no arch " + name);
}

struct Odd {
  std::string arch;
  Words words;
  std::string named;
};

TEST(GgufWords, WordsOfOneFamilyThatCannotBe) {
  const float nan = std::nanf("");
  const std::vector<Odd> cases = {
      {"llama", {{"rope.freq_base", real(0)}}, "rotary base"},
      {"llama", {{"rope.freq_base", real(nan)}}, "rotary base"},
      {"llama", {{"rope.dimension_count", number(0)}}, "rotary width"},
      {"llama", {{"rope.dimension_count", number(5)}}, "rotary width"},
      {"llama", {{"rope.dimension_count", wide(-2)}}, "rotary width"},
      {"llama", {{"rope.dimension_count", wide(int64_t{1} << 62)}}, "rotary width"},
      {"llama", {{"rope.scaling.type", text("magic")}}, "rope.scaling.type"},
      {"llama", {{"rope.scaling.type", text("longrope")}}, "rope_factors_short.weight"},
      {"llama", {{"rope.scaling.factor", real(nan)}}, "factor"},
      {"llama",
       {{"rope.scaling.type", text("linear")}, {"rope.scaling.factor", real(0)}},
       "scaling factor"},
      {"llama",
       {{"rope.scaling.type", text("yarn")},
        {"rope.scaling.factor", real(2)},
        {"rope.scaling.original_context_length", wide(-1)}},
       "original context"},
      {"llama", {{"attention.sliding_window", wide(-1)}}, "window"},
      {"phi3", {{"attention.sliding_window", wide(-1)}}, "window"},
      {"starcoder2", {{"attention.sliding_window", wide(-1)}}, "window"},
      {"olmo", {{"attention.clamp_kqv", real(8)}}, "olmo.attention.clamp_kqv"},
      {"olmo", {{"attention.clamp_kqv", real(nan)}}, "olmo.attention.clamp_kqv"},
      {"gemma2", {{"attention.sliding_window", number(0)}}, "window"},
      {"gemma2", {{"attn_logit_softcapping", real(-1)}}, "soft cap"},
      {"gemma2", {{"final_logit_softcapping", real(nan)}}, "logit cap"},
      {"gemma3", {{"attention.sliding_window", number(0)}}, "window"},
      {"gemma3", {{"attention.sliding_window_pattern", number(0)}}, "sliding_window_pattern"},
      {"gemma3", {{"attention.sliding_window_pattern", wide(-6)}}, "sliding_window_pattern"},
      {"gemma3", {{"attention.sliding_window_pattern", list({1, 0})}}, "sliding_window_pattern"},
      {"gemma3", {{"attention.sliding_window_pattern", text("6")}}, "sliding_window_pattern"},
      {"gemma3", {{"rope.freq_base_swa", real(-1)}}, "rotary base"},
      {"cohere2", {{"attention.sliding_window_pattern", number(0)}}, "sliding_window_pattern"},
      {"cohere2", {{"attention.sliding_window", wide(-5)}}, "window"},
      {"cohere2", {{"logit_scale", real(nan)}}, "logit scale"},
      {"command-r", {{"logit_scale", text("1")}}, "command-r.logit_scale"},
      {"granite", {{"logit_scale", real(0)}}, "logit scale"},
      {"granite", {{"residual_scale", real(nan)}}, "residual multiplier"},
      {"granite", {{"embedding_scale", real(nan)}}, "embedding scale"},
      {"granite", {{"attention.scale", real(nan)}}, "score scale"},
      {"bert", {{"attention.causal", flag(true)}}, "bert.attention.causal"},
      {"bert", {{"attention.causal", number(0)}}, "bert.attention.causal"},
      {"gpt2", {{"context_length", number(0)}}, "position rows"},
  };
  for (const Odd& each : cases) {
    SCOPED_TRACE(each.arch + "." + each.words.begin()->first);
    const Arch& arch = arch_of(each.arch);
    Words words = words_of(arch);
    for (const auto& [key, value] : each.words) words[key] = value;
    EXPECT_THAT(error_of(file_of(arch, words)), HasSubstr(each.named));
  }
}

TEST(GgufWords, APatternMayBeAFlagForEachBlock) {
  const Arch& arch = arch_of("gemma3");
  Words words = words_of(arch);
  words["attention.sliding_window_pattern"] = list({0, 1, 0});
  const ModelSpec spec = spec_of(file_of(arch, words));
  EXPECT_EQ(spec.stack.blocks[0].attention.mask, MaskKind::kCausal);
  EXPECT_EQ(spec.stack.blocks[1].attention.mask, MaskKind::kWindow);
  EXPECT_EQ(spec.stack.blocks[2].attention.mask, MaskKind::kCausal);
}

TEST(GgufWords, TheTokenTableMustBeAMatrix) {
  const Arch& arch = arch_of("llama");
  EXPECT_THAT(error_of(file_of(arch, words_of(arch), {24})), HasSubstr("token_embd.weight"));
  GgufBuilder without;
  without.text("general.architecture", "llama");
  EXPECT_THAT(error_of(without.build()), HasSubstr("token_embd.weight"));
}

TEST(GgufWords, ArchitecturesThatAreNotThere) {
  EXPECT_THAT(error_of(GgufBuilder().text("general.architecture", "mamba").build()),
              testing::AllOf(HasSubstr("mamba"), HasSubstr("stablelm")));
  EXPECT_THAT(error_of(GgufBuilder().build()), HasSubstr("general.architecture"));
  EXPECT_THAT(error_of(GgufBuilder().u32("general.architecture", 1).build()),
              HasSubstr("general.architecture"));
}

TEST(GgufWords, TheLargestSpecIsSmall) {
  const auto peak_kib = [] {
    rusage usage{};
    getrusage(RUSAGE_SELF, &usage);
    return usage.ru_maxrss;
  };
  const long before = peak_kib();
  for (const Arch& arch : archs()) {
    Words words = words_of(arch);
    words["block_count"] = number(1024);
    EXPECT_EQ(spec_of(file_of(arch, words)).stack.blocks.size(), 1024U);
    words["attention.head_count"] = wide(int64_t{1} << 40);
    EXPECT_NE(error_of(file_of(arch, words)), "no error");
  }
  EXPECT_LT(peak_kib() - before, 64 * 1024);
}

}  // namespace
}  // namespace mainstem
