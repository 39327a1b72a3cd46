#include "cli/command_line.h"

#include <CLI/CLI.hpp>

#include <algorithm>

#include "cli/console.h"
#include "cli/text.h"
#include "mainstem/error.h"

namespace mainstem::cli {
namespace {

constexpr const char* kAbout =
    "mainstem: the transformer block as a program of named steps.\n"
    "Run a model, see every step of it, check it against the known failure modes.\n\n"
    "Usage: mainstem COMMAND [OPTIONS]\n\n";
constexpr const char* kFooter =
    "\nmainstem COMMAND --help says more. MODEL is a folder with config.json and\n"
    "safetensors, or a .gguf file.\n"
    "Exit codes: 0 fine, 1 a check failed, 2 usage, 3 bad input, 4 internal fault.\n";

std::string one_line(std::string text) {
  std::replace(text.begin(), text.end(), '\n', ' ');
  return text;
}

/// Help texts say the limits in words where they matter.
template <typename Validator>
CLI::Validator silent(Validator validator) {
  validator.description("");
  return validator;
}

/// The first sentence of each command.
std::string overview(const CLI::App& app) {
  std::string text = kAbout;
  for (const CLI::App* each : app.get_subcommands({})) {
    const std::string about = one_line(each->get_description());
    text += "  " + pad_right(each->get_name(), 10) + about.substr(0, about.find('.') + 1) + "\n";
  }
  return text + kFooter;
}

std::string names_of(const CLI::App& app) {
  std::string names;
  for (const CLI::App* each : app.get_subcommands({})) {
    names += (names.empty() ? "" : ", ") + each->get_name();
  }
  return names;
}

std::string quoted(const std::string& word) { return word.empty() ? "none" : "'" + word + "'"; }

/// `bench` without a known word behind it; CLI11 would not say which there are.
void check_subcommand(const CLI::App& app, const std::string& word) {
  const std::vector<const CLI::App*> all = app.get_subcommands({});
  if (all.empty() || word == "--help" || word == "-h") return;
  for (const CLI::App* each : all) {
    if (each->get_name() == word) return;
  }
  throw usage_error(app.get_name(), "one of " + names_of(app), quoted(word));
}

}  // namespace

void Command::flag(const std::string& names, bool& value, const std::string& help) {
  app_->add_flag(names, value, help)->group(group_);
}

void Command::negation(const std::string& names, bool& value) {
  app_->add_flag_callback(names, [&value] { value = false; })->group("");
}

void Command::number(const std::string& names, int64_t& value, Limits limits,
                     const std::string& help) {
  app_->add_option(names, value, help)
      ->check(silent(CLI::Range(limits.low, limits.high)))
      ->type_name("N")
      ->group(group_);
}

void Command::number(const std::string& names, uint64_t& value, const std::string& help) {
  app_->add_option(names, value, help)->type_name("N")->group(group_);
}

void Command::number(const std::string& names, double& value, const std::string& help) {
  app_->add_option(names, value, help)->type_name("X")->group(group_);
}

void Command::text(const std::string& names, std::string& value, const std::string& type,
                   const std::string& help) {
  app_->add_option(names, value, help)->type_name(type)->group(group_);
}

void Command::texts(const std::string& names, std::vector<std::string>& value,
                    const std::string& type, const std::string& help) {
  app_->add_option(names, value, help)
      ->take_all()
      ->type_name(type)
      ->expected(1)
      ->allow_extra_args(false)
      ->group(group_);
}

void Command::choice(const std::string& names, std::string& value,
                     const std::vector<std::string>& words, const std::string& help,
                     const std::string& type) {
  app_->add_option(names, value, help)
      ->check(silent(CLI::IsMember(words)))
      ->type_name(type.empty() ? CLI::detail::join(words, "|") : type)
      ->group(group_);
}

void Command::positional(const std::string& name, std::string& value, bool required,
                         const std::string& help) {
  app_->add_option(name, value, help)->required(required)->type_name(" ");
}

void Command::exclude(const std::string& one, const std::string& other) {
  app_->get_option(one)->excludes(app_->get_option(other));
}

bool Command::given(const std::string& name) const { return app_->count(name) > 0; }

Command Command::subcommand(const std::string& name, const std::string& about) {
  app_->require_subcommand(1);
  return {*app_->add_subcommand(name, about), chosen_};
}

void Command::action(Action action) {
  app_->callback([chosen = chosen_, action = std::move(action)] { *chosen = action; });
}

struct CommandLine::Impl {
  CLI::App app{"", "mainstem"};
  Action chosen;
};

CommandLine::CommandLine() : impl_(std::make_unique<Impl>()) {
  impl_->app.set_version_flag("--version", "mainstem " MAINSTEM_VERSION);
  impl_->app.require_subcommand(1);
  impl_->app.get_formatter()->column_width(28);
}
CommandLine::~CommandLine() = default;

Command CommandLine::add(const std::string& name, const std::string& about) {
  return {*impl_->app.add_subcommand(name, about), &impl_->chosen};
}

int CommandLine::run(std::vector<std::string> arguments) {
  CLI::App& app = impl_->app;
  const std::string first = arguments.empty() ? "" : arguments[0];
  const std::string second = arguments.size() < 2 ? "" : arguments[1];
  std::string command;
  for (const CLI::App* each : app.get_subcommands({})) {
    if (each->get_name() == first) command = first;
  }
  if (command.empty() && first != "--help" && first != "-h" && first != "--version") {
    throw usage_error("command", "one of " + names_of(app), quoted(first));
  }
  if (!command.empty()) check_subcommand(*app.get_subcommand(command), second);
  try {
    std::reverse(arguments.begin(), arguments.end());
    app.parse(std::move(arguments));
  } catch (const CLI::CallForHelp&) {
    print(command.empty() ? overview(app) : app.help());
    return 0;
  } catch (const CLI::CallForVersion& version) {
    print(std::string(version.what()) + "\n");
    return 0;
  } catch (const CLI::ParseError& error) {
    throw usage_error(one_line(error.what()))
        .hint("see mainstem " + (command.empty() ? "" : command + " ") + "--help");
  }
  return impl_->chosen();
}

void parse_words(const std::vector<std::string>& words,
                 const std::function<void(Command&)>& declare) {
  CLI::App app;
  app.set_help_flag();
  Action none;
  Command command(app, &none);
  declare(command);
  try {
    app.parse(std::vector<std::string>(words.rbegin(), words.rend()));
  } catch (const CLI::ParseError& error) {
    throw usage_error(one_line(error.what()));
  }
}

}  // namespace mainstem::cli
