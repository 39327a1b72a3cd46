#include <array>
#include <ctime>
#include <iterator>

#include "io/text.h"
#include "models/chat/arguments.h"
#include "models/chat/interpreter.h"
#include "models/chat/python_text.h"

namespace mainstem::chat {
namespace {

Value range(Runtime& runtime, const Arguments& arguments) {
  expect_positional("range", arguments, 1, 3);
  std::array<int64_t, 3> numbers{};
  for (size_t i = 0; i < arguments.positional.size(); ++i) {
    const Value& value = arguments.positional[i];
    if (!value.is(Kind::kInt) && !value.is(Kind::kBool)) {
      refuse_value("range", "integers", value);
    }
    numbers[i] = value.integer();
  }
  Range made;
  const bool one = arguments.positional.size() == 1;
  made.start = one ? 0 : numbers[0];
  made.stop = one ? numbers[0] : numbers[1];
  made.step = arguments.positional.size() == 3 ? numbers[2] : 1;
  if (made.step == 0) throw bad_input("range", "a step", "0");
  // In double, since the span may not fit; near the limit both are exact.
  const double span = (static_cast<double>(made.stop) - static_cast<double>(made.start)) /
                      static_cast<double>(made.step);
  if (span > static_cast<double>(runtime.limits().range)) {
    throw bad_input("range", "at most " + std::to_string(runtime.limits().range) + " numbers",
                    "more");
  }
  if (span <= 0) made.stop = made.start;
  return Value(Shared<const Range>(std::make_shared<Range>(made)));
}

/// dict(mapping or pairs, name=value, …)
std::vector<std::pair<Value, Value>> entries_of(Runtime& runtime, const char* function,
                                                const Arguments& arguments) {
  std::vector<std::pair<Value, Value>> entries;
  if (arguments.positional.size() > 1) {
    throw bad_input(function, "at most one positional argument",
                    std::to_string(arguments.positional.size()));
  }
  for (const Value& given : arguments.positional) {
    if (given.is(Kind::kDict)) {
      entries = given.at<const Dict>().entries;
      runtime.step(static_cast<int64_t>(entries.size()));
      continue;
    }
    for (const Value& pair : elements(runtime, given)) {
      Items two = elements(runtime, pair);
      if (two.size() != 2) throw bad_input(function, "pairs", std::to_string(two.size()));
      entries.emplace_back(std::move(two[0]), std::move(two[1]));
    }
  }
  for (const auto& [name, value] : arguments.named) {
    entries.emplace_back(runtime.text(name), value);
  }
  return entries;
}

Value dict(Runtime& runtime, const Arguments& arguments) {
  return runtime.dict(entries_of(runtime, "dict", arguments));
}

Value make_namespace(Runtime& runtime, const Arguments& arguments) {
  const Value made = runtime.make_namespace();
  for (auto& [key, value] : entries_of(runtime, "namespace", arguments)) {
    if (!key.is(Kind::kString)) refuse_value("namespace", "names", key);
    if (key.text().starts_with('_')) {
      throw bad_input("member of a namespace", "a name without _ before it", quote(key.text()));
    }
    runtime.set_member(made.at<Namespace>(), key.text(), std::move(value));
  }
  return made;
}

Value raise_exception(Runtime& runtime, const Arguments& arguments) {
  const Bound bound("raise_exception", arguments, {"message"}, 1);
  throw usage_error("the model's chat template refuses this conversation: " +
                    to_text(runtime, bound[0]));
}

Value strftime_now(Runtime& runtime, const Arguments& arguments) {
  const Bound bound("strftime_now", arguments, {"format"}, 1);
  const std::string_view format = bound.text(0, "");
  constexpr std::string_view kKnown = "aAbBcdDeFgGhHIjklmMnpPrRStTuUVwWxXyYC%", kFlags = "-_0^#";
  for (size_t at = format.find('%'); at != format.npos; at = format.find('%', at + 1)) {
    ++at;
    if (at < format.size() && kFlags.find(format[at]) != kFlags.npos) ++at;
    if (at >= format.size() || kKnown.find(format[at]) == kKnown.npos) {
      throw bad_input("strftime_now", "letters among " + std::string(kKnown),
                      quote(format.substr(std::min(at, format.size()), 1)));
    }
  }
  if (format.size() > 1000) throw bad_input("strftime_now", "at most 1000 bytes", "more");
  const std::time_t now = runtime.now();
  std::tm parts{};
  if (localtime_r(&now, &parts) == nullptr) throw bad_input("strftime_now", "a time", "none");
  // No letter gives more than 64 bytes; a space keeps an empty result from looking like a failure.
  std::string text(format.size() * 64 + 65, '\0');
  text.resize(std::strftime(text.data(), text.size(), (std::string(format) + " ").c_str(), &parts));
  if (!text.empty()) text.pop_back();
  return runtime.text(std::move(text));
}

constexpr Function kFunctions[] = {
    {"range", range},
    {"dict", dict},
    {"namespace", make_namespace},
    {"raise_exception", raise_exception},
    {"strftime_now", strftime_now},
};

}  // namespace

const Function* find_function(std::string_view name) {
  for (const Function& function : kFunctions) {
    if (function.name == name) return &function;
  }
  return nullptr;
}

}  // namespace mainstem::chat
