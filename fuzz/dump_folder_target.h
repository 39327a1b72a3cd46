#pragma once

// What the fuzz target does with its input: a folder of files is opened as a dump, arrays of numpy
// or a model debugger's tree with its values beside it. tests/io/fuzz_corpus_test.cc runs the kept
// corpus through it.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <span>
#include <string>
#include <string_view>

#include "fuzz_targets.h"

namespace mainstem::fuzz {

/// A folder of this process alone, which goes with it.
class ScratchFolder {
 public:
  ScratchFolder() {
    std::string pattern =
        (std::filesystem::temp_directory_path() / "mainstem-fuzz-XXXXXX").string();
    if (mkdtemp(pattern.data()) == nullptr) std::abort();
    path_ = pattern;
  }
  ~ScratchFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

/// A path that stays inside: levels of letters, digits and a few signs.
inline std::filesystem::path tame_path(std::string_view name) {
  std::filesystem::path path;
  std::string level;
  const auto end_level = [&] {
    if (!level.empty()) path /= level == "." || level == ".." ? "dots" : level;
    level.clear();
  };
  for (const char c : name.substr(0, 60)) {
    if (c == '/') {
      end_level();
    } else {
      level += c == '\0' ? '0' : c;
    }
  }
  end_level();
  return path.empty() ? "file" : path;
}

/// Files as: a byte with the length of the name, the name, two bytes (low first) with the length of
/// the content, the content.
inline void write_files(std::span<const std::byte> input, const std::filesystem::path& folder) {
  constexpr int kMaxFiles = 16;
  const auto take = [&](size_t count) {
    count = std::min(count, input.size());
    const auto taken = input.first(count);
    input = input.subspan(count);
    return taken;
  };
  const auto number = [&](size_t bytes) {
    size_t value = 0, unit = 1;
    for (const std::byte b : take(bytes)) {
      value += unit * std::to_integer<size_t>(b);
      unit *= 256;
    }
    return value;
  };
  for (int files = 0; !input.empty() && files < kMaxFiles; ++files) {
    const auto name = take(number(1));
    const auto path = folder / tame_path({reinterpret_cast<const char*>(name.data()), name.size()});
    const auto content = take(number(2));
    std::error_code ignored;  // a file may stand where a folder is wanted
    std::filesystem::create_directories(path.parent_path(), ignored);
    std::ofstream out(path, std::ios::binary);
    out.write(reinterpret_cast<const char*>(content.data()),
              static_cast<std::streamsize>(content.size()));
  }
}

inline void run_dump_folder(std::span<const std::byte> input) {
  static const ScratchFolder scratch;
  const std::filesystem::path folder = scratch.path() / "dump";
  std::filesystem::remove_all(folder);
  std::filesystem::create_directory(folder);
  write_files(input, folder);
  expect_answer([&] {
    DumpOptions options;
    options.max_inflated_bytes = uint64_t{16} << 20;
    touch(Dump::open(folder, options));
  });
}

}  // namespace mainstem::fuzz
