#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace mainstem::cli {

/// What the chosen command does once everything is parsed; returns the exit code.
using Action = std::function<int()>;

/// One command and its options. Names are written as "-n,--count"; values keep what they hold
/// where an option is not given. CLI11 stays behind this class: it is slow to compile.
class Command {
 public:
  Command(CLI::App& app, Action* chosen) : app_(&app), chosen_(chosen) {}

  struct Limits {
    int64_t low = 0, high = INT64_MAX;
  };
  void flag(const std::string& names, bool& value, const std::string& help);
  /// Takes a flag back; not in the help.
  void negation(const std::string& names, bool& value);
  void number(const std::string& names, int64_t& value, Limits limits, const std::string& help);
  void number(const std::string& names, uint64_t& value, const std::string& help);
  void number(const std::string& names, double& value, const std::string& help);
  /// Anything but the empty text, which any_text() takes too.
  void text(const std::string& names, std::string& value, const std::string& type,
            const std::string& help);
  void any_text(const std::string& names, std::string& value, const std::string& type,
                const std::string& help);
  /// May be given several times.
  void texts(const std::string& names, std::vector<std::string>& value, const std::string& type,
             const std::string& help);
  /// One of the words; `type` stands for a list that is too long for the help.
  void choice(const std::string& names, std::string& value, const std::vector<std::string>& words,
              const std::string& help, const std::string& type = {});
  void positional(const std::string& name, std::string& value, bool required,
                  const std::string& help);
  void exclude(const std::string& one, const std::string& other);
  /// A heading in the help for the options that follow.
  void group(const std::string& title) { group_ = title; }

  bool given(const std::string& name) const;
  Command subcommand(const std::string& name, const std::string& about);
  void action(Action action);

 private:
  void parsed(const std::string& names, const std::string& type, const std::string& help,
              std::function<void(const std::string&)> take);

  CLI::App* app_;
  Action* chosen_;
  std::string group_ = "Options";
};

/// All commands of `mainstem`.
class CommandLine {
 public:
  CommandLine();
  ~CommandLine();
  Command add(const std::string& name, const std::string& about);
  /// Prints help or version, or runs the command; returns the exit code. A usage Error for what
  /// cannot be understood.
  int run(std::vector<std::string> arguments);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// Reads words into the options of `declare` alone, for a list inside a command line.
void parse_words(const std::vector<std::string>& words,
                 const std::function<void(Command&)>& declare);

}  // namespace mainstem::cli
