#include "cli/command_line.h"

#include <CLI/CLI.hpp>

#include <algorithm>
#include <charconv>
#include <cmath>

#include "cli/console.h"
#include "cli/text.h"
#include "mainstem/error.h"

namespace mainstem::cli {
namespace {

constexpr const char* kAbout =
    "mainstem: the transformer block as a program of named steps.\n"
    "Run a model, see every step of it, check it against the known failure modes.\n\n"
    "Usage: mainstem COMMAND [OPTIONS]\n\n";
constexpr std::string_view kDidYouMean = "did you mean ";
constexpr const char* kFooter =
    "\nmainstem COMMAND --help says more. MODEL is a folder with config.json and\n"
    "safetensors, or a .gguf file.\n"
    "Exit codes: 0 fine, 1 a check failed, 2 usage, 3 bad input, 4 internal fault.\n";

std::string one_line(std::string text) {
  std::replace(text.begin(), text.end(), '\n', ' ');
  return text;
}

/// "--count" of "-n,--count".
std::string long_name(const std::string& names) { return names.substr(names.rfind(',') + 1); }

/// CLI11 clamps what is too large; here it is an error.
template <typename Number>
Number parse_number(const std::string& option, const std::string& text, const char* expected) {
  Number number{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size()) {
    throw usage_error(option, expected, "'" + text + "'");
  }
  return number;
}

std::string range_text(Command::Limits limits) {
  return "a whole number from " + std::to_string(limits.low) +
         (limits.high == INT64_MAX ? "" : " to " + std::to_string(limits.high));
}

std::string joined(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : ", ") + word;
  return text;
}

Error& suggest(Error& error, const std::string& word, const std::vector<std::string>& known,
               const std::string& otherwise) {
  const std::string near = closest(word, known);
  if (near.empty() && otherwise.empty()) return error;
  return error.hint(near.empty() ? otherwise : std::string(kDidYouMean) + near + "?");
}

/// The first sentence of each command.
std::string overview(const CLI::App& app) {
  std::string text = kAbout;
  for (const CLI::App* each : app.get_subcommands({})) {
    const std::string about = one_line(each->get_description());
    const size_t end = std::min(about.find(". "), about.size() - 1) + 1;
    std::string name = each->get_name();
    for (const std::string& line : wrap(about.substr(0, end), 80 - 12)) {
      text += "  " + pad_right(name, 10) + line + "\n";
      name.clear();
    }
  }
  return text + kFooter;
}

std::vector<std::string> names_of(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::App* each : app.get_subcommands({})) names.push_back(each->get_name());
  return names;
}

std::string quoted(const std::string& word) { return word.empty() ? "none" : "'" + word + "'"; }

/// The command of that name, or the App itself where the word asks for help. CLI11 would not say
/// which commands there are.
CLI::App& chosen_command(CLI::App& app, const std::string& what, const std::string& word) {
  const std::vector<std::string> known = names_of(app);
  if (known.empty() || word == "--help" || word == "-h") return app;
  if (std::find(known.begin(), known.end(), word) != known.end()) return *app.get_subcommand(word);
  Error error = usage_error(what, "one of " + joined(known), quoted(word));
  throw suggest(error, word, known, "");
}

/// What nobody takes: CLI11 collects it, so that what is missing is reported first.
void refuse_extras(const CLI::App& app, const std::string& otherwise) {
  const std::vector<std::string> extras = app.remaining();
  if (extras.empty()) return;
  std::vector<std::string> known;
  for (const CLI::Option* option : app.get_options({})) {
    for (const std::string& name : option->get_lnames()) known.push_back("--" + name);
  }
  const std::string word = extras[0].substr(0, extras[0].find('='));
  Error error = word.starts_with('-') ? usage_error("option", "one that there is", quoted(word))
                                      : usage_error("argument", "none more", quoted(word));
  throw suggest(error, word.starts_with("--") ? word : "", known, otherwise);
}

/// CLI11's messages in our words.
Error usage_error_of(const CLI::ParseError& error, const std::string& command) {
  const std::string text = one_line(error.what());
  const auto before = [&](const char* words) { return text.substr(0, text.find(words)); };
  if (dynamic_cast<const CLI::RequiredError*>(&error) != nullptr) {
    return usage_error(command, before(" is required"), "none");
  }
  if (dynamic_cast<const CLI::ExcludesError*>(&error) != nullptr) {
    const std::string one = before(" excludes ");
    return usage_error(one, "no" + text.substr(text.rfind(' ')) + " beside it", "both");
  }
  if (dynamic_cast<const CLI::ArgumentMismatch*>(&error) != nullptr) {
    const bool none = text.find("missing") != std::string::npos;
    return usage_error(before(":"), none ? "a value behind it" : "one value",
                       none ? "none" : "several");
  }
  return usage_error(text);
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
  parsed(names, "N", help, [&value, limits, option = long_name(names)](const std::string& text) {
    const std::string expected = range_text(limits);
    const auto number = parse_number<int64_t>(option, text, expected.c_str());
    if (number < limits.low || number > limits.high) throw usage_error(option, expected, text);
    value = number;
  });
}

void Command::number(const std::string& names, uint64_t& value, const std::string& help) {
  parsed(names, "N", help, [&value, option = long_name(names)](const std::string& text) {
    value = parse_number<uint64_t>(option, text, "a whole number from 0 to 18446744073709551615");
  });
}

void Command::number(const std::string& names, double& value, const std::string& help) {
  parsed(names, "X", help, [&value, option = long_name(names)](const std::string& text) {
    const auto number = parse_number<double>(option, text, "a number");
    if (!std::isfinite(number)) throw usage_error(option, "a finite number", text);
    value = number;
  });
}

void Command::text(const std::string& names, std::string& value, const std::string& type,
                   const std::string& help) {
  parsed(names, type, help, [&value, type, option = long_name(names)](const std::string& text) {
    if (text.empty()) throw usage_error(option, type, "nothing");
    value = text;
  });
}

void Command::any_text(const std::string& names, std::string& value, const std::string& type,
                       const std::string& help) {
  parsed(names, type, help, [&value](const std::string& text) { value = text; });
}

void Command::parsed(const std::string& names, const std::string& type, const std::string& help,
                     std::function<void(const std::string&)> take) {
  CLI::callback_t callback = [take = std::move(take)](const CLI::results_t& given) {
    take(given.front());
    return true;
  };
  app_->add_option(names, std::move(callback), help)->type_name(type)->group(group_);
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
  parsed(names, type.empty() ? CLI::detail::join(words, "|") : type, help,
         [&value, words, option = long_name(names)](const std::string& text) {
           if (std::find(words.begin(), words.end(), text) == words.end()) {
             Error error = usage_error(option, "one of " + joined(words), "'" + text + "'");
             throw suggest(error, text, words, "");
           }
           value = text;
         });
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
  impl_->app.allow_extras();  // and so do the commands: refuse_extras() speaks for them
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
  CLI::App* command = &app;
  std::string name;  // "trace", "bench model"
  if (first != "--version") command = &chosen_command(app, "command", first);
  if (command != &app) {
    name = first;
    CLI::App& second = chosen_command(*command, first, arguments.size() < 2 ? "" : arguments[1]);
    if (&second != command) name += " " + second.get_name();
    command = &second;
  }
  const std::string hint = "see mainstem " + (name.empty() ? "" : name + " ") + "--help";
  try {
    std::reverse(arguments.begin(), arguments.end());
    app.parse(std::move(arguments));
  } catch (const CLI::CallForHelp&) {
    print(name.empty() ? overview(app) : app.help());
    return 0;
  } catch (const CLI::CallForVersion& version) {
    print(std::string(version.what()) + "\n");
    return 0;
  } catch (const CLI::ParseError& error) {
    throw usage_error_of(error, name).hint(hint);
  } catch (Error& error) {  // a value that its option does not take
    if (std::string_view(error.what()).find(kDidYouMean) == std::string_view::npos) {
      error.hint(hint);
    }
    throw;
  }
  refuse_extras(*command, hint);
  return impl_->chosen();
}

void parse_words(const std::vector<std::string>& words,
                 const std::function<void(Command&)>& declare) {
  CLI::App app;
  app.set_help_flag();
  app.allow_extras();
  Action none;
  Command command(app, &none);
  declare(command);
  try {
    app.parse(std::vector<std::string>(words.rbegin(), words.rend()));
  } catch (const CLI::ParseError& error) {
    throw usage_error_of(error, "options");
  }
  refuse_extras(app, "");
}

}  // namespace mainstem::cli
