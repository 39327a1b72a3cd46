// Runs the kept corpora of the fuzz targets, so that what fuzzing once found stays fixed in every
// build, sanitizers or not.

#include <functional>
#include <span>
#include <string>

#include "../../fuzz/dump_folder_target.h"
#include "../../fuzz/fuzz_targets.h"
#include "io/test_files.h"

namespace mainstem {
namespace {

void run_corpus(const std::string& target,
                const std::function<void(std::span<const std::byte>)>& run) {
  const auto folder =
      std::filesystem::path(MAINSTEM_TEST_DATA).parent_path() / "fuzz" / "corpus" / target;
  int files = 0;
  for (const auto& file : std::filesystem::directory_iterator(folder)) {
    SCOPED_TRACE(file.path().string());
    const std::string content = test::read_file(file.path());
    EXPECT_NO_THROW(run(test::as_bytes(content)));
    ++files;
  }
  EXPECT_GE(files, 10) << "in " << folder;
}

TEST(FuzzCorpus, Safetensors) { run_corpus("safetensors", fuzz::run_safetensors); }
TEST(FuzzCorpus, Gguf) { run_corpus("gguf", fuzz::run_gguf); }
TEST(FuzzCorpus, Npz) { run_corpus("npz", fuzz::run_npz); }
TEST(FuzzCorpus, Dump) { run_corpus("dump", fuzz::run_dump); }
TEST(FuzzCorpus, DumpFolder) { run_corpus("dump_folder", fuzz::run_dump_folder); }
TEST(FuzzCorpus, Pickle) { run_corpus("pickle", fuzz::run_pickle); }
TEST(FuzzCorpus, PrintedText) { run_corpus("printed_text", fuzz::run_printed_text); }
TEST(FuzzCorpus, Json) { run_corpus("json", fuzz::run_json); }

}  // namespace
}  // namespace mainstem
