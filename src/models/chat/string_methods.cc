#include <algorithm>
#include <iterator>

#include "io/text.h"
#include "models/chat/methods.h"
#include "models/chat/operators.h"
#include "models/chat/python_text.h"
#include "models/tokenizer/unicode.h"

namespace mainstem::chat {
namespace {

template <std::string (*Change)(std::string_view)>
Value changed(Runtime& runtime, const Value& self, const Arguments& arguments) {
  expect_positional("string method", arguments, 0, 0);
  runtime.walk(self.text().size());
  return runtime.text(Change(self.text()), self.is_markup());
}

template <Ends Side>
Value strip(Runtime& runtime, const Value& self, const Arguments& arguments) {
  expect_positional("str.strip", arguments, 0, 1);
  runtime.read(self.text().size());
  if (arguments.positional.empty() || arguments.positional[0].is(Kind::kNone)) {
    return runtime.text(std::string(strip_space(self.text(), Side)), self.is_markup());
  }
  const Value& characters = arguments.positional[0];
  if (!characters.is(Kind::kString)) refuse_value("str.strip", "a string", characters);
  return runtime.text(strip_any(self.text(), characters.text(), Side), self.is_markup());
}

uint64_t count_of(std::string_view text, std::string_view part) {
  if (part.empty()) return static_cast<uint64_t>(count_points(text)) + 1;
  uint64_t count = 0;
  for (size_t at = text.find(part); at != text.npos; at = text.find(part, at + part.size())) {
    ++count;
  }
  return count;
}

Value list_of(Runtime& runtime, std::vector<std::string> parts, bool markup) {
  Items items;
  for (std::string& part : parts) items.push_back(runtime.text(std::move(part), markup));
  return runtime.list(std::move(items));
}

template <bool FromRight>
Value split(Runtime& runtime, const Value& self, const Arguments& arguments) {
  const Bound bound("str.split", arguments, {"sep", "maxsplit"});
  const int64_t count = bound.integer(1, -1);
  const std::string_view text = self.text();
  runtime.walk(text.size());
  if (bound[0].is(Kind::kNone)) {
    runtime.expect_items(text.size() / 2 + 1);
    return list_of(runtime, split_space(text, count, FromRight), self.is_markup());
  }
  const std::string_view separator = bound.text(0, "");
  if (separator.empty()) throw bad_input("str.split", "a separator", "an empty one");
  runtime.search(text.size(), separator.size());
  runtime.expect_items(count_of(text, separator) + 1);
  return list_of(runtime, split_at(text, separator, count, FromRight), self.is_markup());
}

Value split_into_lines(Runtime& runtime, const Value& self, const Arguments& arguments) {
  const Bound bound("str.splitlines", arguments, {"keepends"});
  runtime.walk(self.text().size());
  runtime.expect_items(self.text().size());
  return list_of(runtime, split_lines(self.text(), bound.truth(0, false)), self.is_markup());
}

template <bool AtStart>
Value has_end(Runtime& runtime, const Value& self, const Arguments& arguments) {
  const char* name = AtStart ? "str.startswith" : "str.endswith";
  expect_positional(name, arguments, 1, 1);
  const Value& wanted = arguments.positional[0];
  const auto matches = [&](const Value& part) {
    if (!part.is(Kind::kString)) refuse_value(name, "a string or a tuple of strings", part);
    runtime.read(part.text().size());
    return AtStart ? self.text().starts_with(part.text()) : self.text().ends_with(part.text());
  };
  if (!wanted.is(Kind::kTuple)) return Value(matches(wanted));
  return Value(std::any_of(wanted.items().begin(), wanted.items().end(), matches));
}

Value replace_method(Runtime& runtime, const Value& self, const Arguments& arguments) {
  const Bound bound("str.replace", arguments, {"old", "new", "count"}, 2);
  const bool escapes = self.is_markup() && !bound[1].is_markup();
  const std::string_view with = bound.text(1, "");
  return replace_text(runtime, self.text(), bound.text(0, ""),
                      escapes ? escape_markup(with) : std::string(with), bound.integer(2, -1),
                      self.is_markup());
}

Value join(Runtime& runtime, const Value& self, const Arguments& arguments) {
  expect_positional("str.join", arguments, 1, 1);
  Items items = elements(runtime, arguments.positional[0]);
  for (Value& item : items) {
    if (!item.is(Kind::kString)) refuse_value("str.join", "strings", item);
    if (self.is_markup() && !item.is_markup()) item = runtime.text(escape_markup(item.text()));
  }
  return join_texts(runtime, items, self.text(), self.is_markup());
}

template <bool Last, bool MustFind>
Value find_text(Runtime& runtime, const Value& self, const Arguments& arguments) {
  expect_positional("str.find", arguments, 1, 1);
  const Value& part = arguments.positional[0];
  if (!part.is(Kind::kString)) refuse_value("str.find", "a string", part);
  runtime.search(self.text().size(), part.text().size());
  const size_t at = Last ? self.text().rfind(part.text()) : self.text().find(part.text());
  if (at != std::string_view::npos) return Value(count_points(self.text().substr(0, at)));
  if (MustFind) throw bad_input("str.index", "a text that holds the other", "another");
  return Value(int64_t{-1});
}

Value count(Runtime& runtime, const Value& self, const Arguments& arguments) {
  expect_positional("str.count", arguments, 1, 1);
  const Value& part = arguments.positional[0];
  if (!part.is(Kind::kString)) refuse_value("str.count", "a string", part);
  runtime.search(self.text().size(), part.text().size());
  return Value(static_cast<int64_t>(count_of(self.text(), part.text())));
}

template <bool Prefix>
Value remove_end(Runtime& runtime, const Value& self, const Arguments& arguments) {
  expect_positional("str.removeprefix", arguments, 1, 1);
  const Value& part = arguments.positional[0];
  if (!part.is(Kind::kString)) refuse_value("str.removeprefix", "a string", part);
  std::string_view text = self.text();
  if (Prefix && text.starts_with(part.text())) text.remove_prefix(part.text().size());
  if (!Prefix && text.ends_with(part.text())) text.remove_suffix(part.text().size());
  return runtime.text(std::string(text), self.is_markup());
}

tokenizer::CodePointSet category(const char* name) {
  return tokenizer::CodePointSet::categories(tokenizer::category_mask(name));
}
bool is_letter(uint32_t point) {
  static const tokenizer::CodePointSet letters = category("L");
  if (point < 0x80) return (point | 0x20) >= 'a' && (point | 0x20) <= 'z';
  return letters.contains(point);
}
bool is_decimal(uint32_t point) {
  static const tokenizer::CodePointSet digits = category("Nd");
  return point < 0x80 ? point >= '0' && point <= '9' : digits.contains(point);
}
bool is_letter_or_digit(uint32_t point) { return is_letter(point) || is_decimal(point); }

/// True for a text of one character or more, all of the kind.
template <bool (*Kind)(uint32_t)>
Value all_are(Runtime& runtime, const Value& self, const Arguments& arguments) {
  expect_positional("string method", arguments, 0, 0);
  runtime.step(static_cast<int64_t>(self.text().size()));
  const std::u32string points = decode(self.text());
  return Value(!points.empty() && std::all_of(points.begin(), points.end(), [](char32_t point) {
    return Kind(static_cast<uint32_t>(point));
  }));
}

template <std::string (*Change)(std::string_view)>
Value is_unchanged(Runtime& runtime, const Value& self, const Arguments& arguments) {
  expect_positional("string method", arguments, 0, 0);
  runtime.walk(3 * self.text().size());
  const std::string_view text = self.text();
  return Value(Change(text) == text && upper(text) != lower(text));
}

/// str.format with fields {}, {0} and {name} alone.
class BraceFormat {
 public:
  BraceFormat(Runtime& runtime, const Arguments& arguments)
      : runtime_(runtime), arguments_(arguments) {}
  std::string run(std::string_view text) {
    while (!text.empty()) {
      const size_t mark = std::min(text.find_first_of("{}"), text.size());
      put(text.substr(0, mark));
      text.remove_prefix(mark);
      if (text.empty()) break;
      if (text.size() > 1 && text[1] == text[0]) {
        put(text.substr(0, 1));
        text.remove_prefix(2);
        continue;
      }
      const size_t end = text.find('}');
      if (text[0] == '}' || end == text.npos) throw bad_input("str.format", "{field}", "a brace");
      put(to_text(runtime_, argument(text.substr(1, end - 1))));
      text.remove_prefix(end + 1);
    }
    return std::move(out_);
  }

 private:
  void put(std::string_view part) {
    runtime_.read(part.size());
    runtime_.expect_text(out_.size() + part.size());
    out_ += part;
  }
  Value argument(std::string_view field) {
    const bool number = field.find_first_not_of("0123456789") == field.npos;
    if (!number && field.find_first_of(".[!:{") != field.npos) {
      throw bad_input("str.format", "fields {}, {0} and {name}: others are not supported",
                      quote(field));
    }
    if (number) {
      (field.empty() ? automatic_ : manual_) = true;
      if (automatic_ && manual_) throw bad_input("str.format", "{} or {0}", "both");
      size_t place = next_;
      if (field.empty()) {
        ++next_;
      } else {
        place = field.size() > 6 ? SIZE_MAX : std::stoul(std::string(field));
      }
      if (place >= arguments_.positional.size()) {
        throw bad_input("str.format", "an argument for each field", "fewer");
      }
      return arguments_.positional[place];
    }
    for (const auto& [name, value] : arguments_.named) {
      if (name == field) return value;
    }
    throw bad_input("str.format", "an argument " + quote(field), "none");
  }

  Runtime& runtime_;
  const Arguments& arguments_;
  std::string out_;
  size_t next_ = 0;
  bool automatic_ = false, manual_ = false;
};

Value format(Runtime& runtime, const Value& self, const Arguments& arguments) {
  if (self.is_markup()) throw bad_input("str.format", "a string that is not markup", "markup");
  return runtime.text(BraceFormat(runtime, arguments).run(self.text()));
}

struct Entry {
  std::string_view name;
  MethodFunction function;
};

constexpr Entry kMethods[] = {
    {"capitalize", changed<capitalize>},
    {"count", count},
    {"endswith", has_end<false>},
    {"find", find_text<false, false>},
    {"format", format},
    {"index", find_text<false, true>},
    {"isalnum", all_are<is_letter_or_digit>},
    {"isalpha", all_are<is_letter>},
    {"isdigit", all_are<is_decimal>},
    {"islower", is_unchanged<lower>},
    {"isspace", all_are<is_space>},
    {"isupper", is_unchanged<upper>},
    {"join", join},
    {"lower", changed<lower>},
    {"lstrip", strip<Ends::kLeft>},
    {"removeprefix", remove_end<true>},
    {"removesuffix", remove_end<false>},
    {"replace", replace_method},
    {"rfind", find_text<true, false>},
    {"rindex", find_text<true, true>},
    {"rsplit", split<true>},
    {"rstrip", strip<Ends::kRight>},
    {"split", split<false>},
    {"splitlines", split_into_lines},
    {"startswith", has_end<true>},
    {"strip", strip<Ends::kBoth>},
    {"title", changed<title>},
    {"upper", changed<upper>},
};

}  // namespace

MethodFunction find_string_method(std::string_view name) {
  const auto found = std::find_if(std::begin(kMethods), std::end(kMethods),
                                  [&](const Entry& entry) { return entry.name == name; });
  return found == std::end(kMethods) ? nullptr : found->function;
}

Value replace_text(Runtime& runtime, std::string_view text, std::string_view old,
                   std::string_view with, int64_t count, bool markup) {
  runtime.search(text.size(), old.size());
  const uint64_t found = count_of(text, old);
  const uint64_t replaced = count < 0 ? found : std::min(found, static_cast<uint64_t>(count));
  runtime.expect_text(replaced, with.size());
  runtime.step(static_cast<int64_t>(replaced));
  return runtime.text(replace(text, old, with, count), markup);
}

Value join_texts(Runtime& runtime, const Items& items, std::string_view separator, bool markup) {
  std::string text;
  for (size_t i = 0; i < items.size(); ++i) {
    const std::string piece = to_text(runtime, items[i]);
    runtime.read(piece.size() + separator.size());
    runtime.expect_text(text.size() + piece.size() + separator.size());
    if (i > 0) text += separator;
    text += piece;
  }
  return runtime.text(std::move(text), markup);
}

}  // namespace mainstem::chat
