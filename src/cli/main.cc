// The command `mainstem`: parses, runs one command, turns what went wrong into an exit code.

#include <algorithm>
#include <csignal>
#include <exception>
#include <new>
#include <string>
#include <vector>

#include "cli/arguments.h"
#include "cli/console.h"
#include "cli/interrupt.h"
#include "mainstem/error.h"

namespace mainstem::cli {
namespace {

constexpr int kInternal = 4, kInterrupted = 130;

/// `inspect … --against …`, or `draw`: everything behind it describes the second block, quoted or
/// not.
std::vector<std::string> cut_against(std::vector<std::string>& arguments) {
  if (arguments.empty() || (arguments[0] != "inspect" && arguments[0] != "draw")) return {};
  const auto at = std::find(arguments.begin(), arguments.end(), "--against");
  if (at == arguments.end()) return {};
  std::vector<std::string> second;
  for (auto each = at + 1; each != arguments.end(); ++each) {
    for (std::string& word : split(*each, ' ')) second.push_back(std::move(word));
  }
  if (second.empty()) second.emplace_back();  // given, but nothing behind it
  arguments.erase(at, arguments.end());
  return second;
}

int run(std::vector<std::string> arguments) {
  const std::vector<std::string> against = cut_against(arguments);
  CommandLine line;
  add_example(line);
  add_inspect(line, against);
  add_tokenize(line);
  add_run(line);
  add_embed(line);
  add_score(line);
  add_trace(line);
  add_check(line);
  add_diff(line);
  add_doctor(line);
  add_bench(line);
  add_draw(line, against);
  return line.run(std::move(arguments));
}

int guarded(std::vector<std::string> arguments) {
  try {
    return run(std::move(arguments));
  } catch (const ClosedOutput&) {
    // End as any other tool whose reader left.
    std::signal(SIGPIPE, SIG_DFL);
    std::raise(SIGPIPE);
    return kInternal;
  } catch (const Interrupted&) {
    return kInterrupted;
  } catch (const Error& error) {
    note(std::string("mainstem: ") + error.what());
    return static_cast<int>(error.code());
  } catch (const std::bad_alloc&) {
    note("mainstem: not enough memory");
    return kInternal;
  } catch (const std::exception& error) {
    note(std::string("mainstem: internal fault: ") + error.what());
    return kInternal;
  }
}

}  // namespace
}  // namespace mainstem::cli

int main(int argc, char** argv) {
  mainstem::cli::keep_standard_files();
  std::signal(SIGPIPE, SIG_IGN);
  return mainstem::cli::guarded({argv + std::min(argc, 1), argv + argc});
}
