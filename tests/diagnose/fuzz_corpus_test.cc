// Runs the kept corpora of the fuzz targets of dumps and names, as tests/io/fuzz_corpus_test.cc
// does those of the files.

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <span>
#include <string>

#include "../../fuzz/aligned_dump_target.h"
#include "../../fuzz/name_map_target.h"

namespace mainstem {
namespace {

std::filesystem::path corpus(const std::string& target) {
  return std::filesystem::path(MAINSTEM_TEST_DATA).parent_path() / "fuzz" / "corpus" / target;
}

std::string read_input(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

std::span<const std::byte> bytes_of(const std::string& content) {
  return std::as_bytes(std::span(content));
}

void run_corpus(const std::string& target,
                const std::function<void(std::span<const std::byte>)>& run) {
  int files = 0;
  for (const auto& file : std::filesystem::directory_iterator(corpus(target))) {
    SCOPED_TRACE(file.path().string());
    const std::string content = read_input(file.path());
    EXPECT_NO_THROW(run(bytes_of(content)));
    ++files;
  }
  EXPECT_GE(files, 10);
}

DiffReport report_of(const std::string& name) {
  const std::string content = read_input(corpus("aligned_dump") / name);
  fuzz::MadeDump made(bytes_of(content));
  const Dump dump = made.open();
  return diff(made.model(), dump, made.options());
}

TEST(FuzzCorpus, NameMap) { run_corpus("name_map", fuzz::run_name_map); }
TEST(FuzzCorpus, AlignedDump) { run_corpus("aligned_dump", fuzz::run_aligned_dump); }

/// Else the target would only ever see dumps that say nothing.
TEST(FuzzCorpus, SeedsOfAlignedDumpsAreJudged) {
  for (int model = 0; model < 16; ++model) {
    const DiffReport report = report_of("sound_" + std::to_string(model));
    EXPECT_EQ(report.verdict, DiffVerdict::kMatch) << model << " " << report.reason;
    EXPECT_GE(report.steps.size(), 15U) << model;
  }
  for (const char* name : {"bf16", "f16", "layouts", "tokens_first", "layers", "map"}) {
    const DiffReport report = report_of(name);
    EXPECT_EQ(report.verdict, DiffVerdict::kMatch) << name << " " << report.reason;
    EXPECT_GE(report.steps.size(), 10U) << name;
  }
  for (const char* name : {"nan", "inf", "scaled"}) {
    EXPECT_EQ(report_of(name).verdict, DiffVerdict::kDivergent) << name;
  }
}

}  // namespace
}  // namespace mainstem
