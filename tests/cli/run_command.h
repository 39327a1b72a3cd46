#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

// Runs the built command as a user would: its own process, both outputs apart.

extern char** environ;

namespace mainstem::cli_test {

struct Outcome {
  int code = -1;  ///< exit code, or 128 + the signal that ended it
  std::string out, err;
  nlohmann::json json() const { return nlohmann::json::parse(out); }
};

inline std::string slurp(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return std::string((std::istreambuf_iterator<char>(file)), {});
}

/// A folder that goes with the test.
class Scratch {
 public:
  Scratch() {
    std::string pattern = (std::filesystem::temp_directory_path() / "mainstem-cli-XXXXXX").string();
    path_ = mkdtemp(pattern.data());
  }
  ~Scratch() { std::filesystem::remove_all(path_); }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  std::filesystem::path operator/(const std::string& name) const { return path_ / name; }

 private:
  std::filesystem::path path_;
};

/// Starts the command with its outputs in files of the scratch folder.
inline pid_t start(const std::vector<std::string>& arguments, const Scratch& scratch,
                   const char* out = nullptr) {
  std::vector<std::string> words{MAINSTEM_BINARY};
  words.insert(words.end(), arguments.begin(), arguments.end());
  std::vector<char*> pointers;
  for (std::string& word : words) pointers.push_back(word.data());
  pointers.push_back(nullptr);

  posix_spawn_file_actions_t files;
  posix_spawn_file_actions_init(&files);
  const std::string out_path = out != nullptr ? out : (scratch / "out").string();
  const std::string err_path = (scratch / "err").string();
  constexpr int kWrite = O_WRONLY | O_CREAT | O_TRUNC;
  posix_spawn_file_actions_addopen(&files, 1, out_path.c_str(), kWrite, 0600);
  posix_spawn_file_actions_addopen(&files, 2, err_path.c_str(), kWrite, 0600);
  pid_t pid = -1;
  const int error = posix_spawn(&pid, MAINSTEM_BINARY, &files, nullptr, pointers.data(), environ);
  posix_spawn_file_actions_destroy(&files);
  EXPECT_EQ(error, 0) << MAINSTEM_BINARY;
  return pid;
}

inline Outcome finish(pid_t pid, const Scratch& scratch) {
  int status = 0;
  waitpid(pid, &status, 0);
  Outcome outcome;
  outcome.code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  outcome.out = slurp(scratch / "out");
  outcome.err = slurp(scratch / "err");
  return outcome;
}

inline Outcome run(const std::vector<std::string>& arguments) {
  const Scratch scratch;
  return finish(start(arguments, scratch), scratch);
}

/// The document of a command that must succeed.
inline nlohmann::json run_json(std::vector<std::string> arguments) {
  arguments.emplace_back("--json");
  const Outcome outcome = run(arguments);
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  return nlohmann::json::parse(outcome.out, nullptr, false);
}

/// Failed as the contract says: this code, one line on standard error, nothing on standard output.
inline ::testing::AssertionResult fails(const Outcome& outcome, int code, const std::string& word) {
  const auto lines = std::count(outcome.err.begin(), outcome.err.end(), '\n');
  if (outcome.code == code && outcome.out.empty() && lines == 1 &&
      outcome.err.starts_with("mainstem: ") && outcome.err.find(word) != std::string::npos) {
    return ::testing::AssertionSuccess();
  }
  return ::testing::AssertionFailure()
         << "wanted code " << code << " and one line with '" << word << "', got code "
         << outcome.code << "\nout: " << outcome.out.substr(0, 200) << "\nerr: " << outcome.err;
}

/// A model's file or folder in the folder that MAINSTEM_MODELS names; empty where it is not.
inline std::string real_model(const std::string& name) {
  const char* folder = std::getenv("MAINSTEM_MODELS");
  if (folder == nullptr) return {};
  const auto path = std::filesystem::path(folder) / name;
  return std::filesystem::exists(path) ? path.string() : std::string();
}
inline std::string smollm2() { return real_model("SmolLM2-135M-Instruct.Q4_1.gguf"); }

#define MAINSTEM_NEEDS(model, name) \
  if ((model).empty()) GTEST_SKIP() << "MAINSTEM_MODELS names no folder with " name
#define MAINSTEM_NEEDS_SMOLLM2() \
  MAINSTEM_NEEDS(::mainstem::cli_test::smollm2(), "SmolLM2-135M-Instruct.Q4_1.gguf")

inline std::string test_file(const std::string& name) {
  return std::string(MAINSTEM_TEST_DATA) + "/" + name;
}

inline std::string joined(const std::vector<int64_t>& ids) {
  std::string text;
  for (int64_t id : ids) text += (text.empty() ? "" : ",") + std::to_string(id);
  return text;
}

}  // namespace mainstem::cli_test
