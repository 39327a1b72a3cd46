#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "../../fuzz/chat_target.h"
#include "models/tokenizer_files.h"

namespace mainstem {
namespace {

TEST(ChatCorpus, EveryKeptInputIsAnswered) {
  const auto folder =
      std::filesystem::path(MAINSTEM_TEST_DATA).parent_path() / "fuzz" / "corpus" / "chat_template";
  int count = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    SCOPED_TRACE(entry.path().string());
    const std::string bytes = test::read_file(entry.path());
    fuzz::run_chat_template(test::as_bytes(bytes));
    // Cut and bent versions of it, too.
    for (size_t length = 0; length < bytes.size(); length += 1 + bytes.size() / 60) {
      fuzz::run_chat_template(test::as_bytes(std::string_view(bytes).substr(0, length)));
      std::string bent = bytes;
      bent[length] = static_cast<char>(bent[length] ^ 0x15);
      fuzz::run_chat_template(test::as_bytes(bent));
    }
    ++count;
  }
  EXPECT_GE(count, 10);
}

}  // namespace
}  // namespace mainstem
