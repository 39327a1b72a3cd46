#include "io/json.h"

#include <algorithm>
#include <utility>

#include "io/json_tree.h"
#include "io/mapped_file.h"
#include "io/text.h"
#include "mainstem/error.h"

namespace mainstem {
namespace {

using Json = nlohmann::json;

std::string position_of(std::string_view text, size_t offset) {
  const std::string_view before = text.substr(0, offset);
  const auto line = 1 + std::count(before.begin(), before.end(), '\n');
  const size_t line_begin = before.rfind('\n') == before.npos ? 0 : before.rfind('\n') + 1;
  return "line " + std::to_string(line) + ", column " +
         std::to_string(before.size() - line_begin + 1);
}

// Tells the driver how far the parser has read.
class TrackedIterator {
 public:
  using iterator_category = std::forward_iterator_tag;
  using value_type = char;
  using difference_type = std::ptrdiff_t;
  using pointer = const char*;
  using reference = const char&;

  TrackedIterator(const char* at, const char** position) : at_(at), position_(position) {}
  reference operator*() const { return *at_; }
  TrackedIterator& operator++() {
    *position_ = ++at_;
    return *this;
  }
  TrackedIterator operator++(int) {
    TrackedIterator old = *this;
    ++*this;
    return old;
  }
  bool operator==(const TrackedIterator& other) const { return at_ == other.at_; }
  bool operator!=(const TrackedIterator& other) const { return at_ != other.at_; }

 private:
  const char* at_;
  const char** position_;
};

[[noreturn]] void refuse(std::string_view text, size_t offset, std::string expected,
                         std::string got) {
  throw bad_input("JSON", std::move(expected), std::move(got)).in(position_of(text, offset));
}

// What has to be known before the parser may buffer tokens and nest: it takes a NUL byte for the
// end of the text, and copies each token several times.
size_t scan_tokens(std::string_view text, const JsonLimits& limits) {
  if (text.size() > limits.max_bytes) {
    throw bad_input("JSON", "at most " + std::to_string(limits.max_bytes) + " bytes",
                    std::to_string(text.size()));
  }
  if (text.starts_with("\xEF\xBB\xBF")) {
    refuse(text, 0, "a document without a byte order mark", "one");
  }
  if (const size_t nul = text.find('\0'); nul != text.npos) {
    refuse(text, nul, "text", "a NUL byte");
  }
  size_t depth = 0, longest = 0, begin = 0;
  bool in_string = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (in_string) {
      if (c == '\\') {
        ++i;
      } else if (c == '"') {
        longest = std::max(longest, i - begin);
        in_string = false;
        begin = i + 1;
      }
    } else {
      switch (c) {
        case '"':
          in_string = true;
          begin = i + 1;
          break;
        case '[':
        case '{':
          if (++depth > limits.max_depth) {
            refuse(text, i, "a depth of at most " + std::to_string(limits.max_depth), "more");
          }
          begin = i + 1;
          break;
        case ']':
        case '}':
          if (depth > 0) --depth;
          begin = i + 1;
          break;
        case ',':
        case ':':
        case ' ':
        case '\n':
        case '\r':
        case '\t':
          begin = i + 1;
          break;
        default:
          longest = std::max(longest, i - begin + 1);
      }
    }
    if (i >= begin && i - begin > limits.max_token_bytes) {
      refuse(text, i, "tokens of at most " + std::to_string(limits.max_token_bytes) + " bytes",
             "a longer one");
    }
  }
  return longest;
}

}  // namespace

bool JsonHandler::binary(binary_t&) { return false; }  // does not occur in text

bool JsonHandler::parse_error(size_t, const std::string&, const Json::exception& exception) {
  // "[json.exception.parse_error.101] parse error at line 1, column 2: syntax error while …"
  std::string_view text = exception.what();
  if (const size_t end = text.find("] "); end != text.npos) text.remove_prefix(end + 2);
  if (text.starts_with("parse error") && text.find(": ") != text.npos) {
    text.remove_prefix(text.find(": ") + 2);
  }
  std::string shown = quote(text, 200);
  throw bad_input("JSON", "a valid document", shown.substr(1, shown.size() - 2));
}

void parse_json_events(std::string_view text, const JsonLimits& limits, MemoryBudget& budget,
                       JsonHandler& handler) {
  // The parser keeps two growing copies of a token, and a message may take two more.
  budget.charge(8 * scan_tokens(text, limits), "JSON");
  const char* position = text.data();
  try {
    if (!Json::sax_parse(TrackedIterator(position, &position),
                         TrackedIterator(text.data() + text.size(), &position), &handler,
                         Json::input_format_t::json, /*strict=*/true)) {
      throw bad_input("JSON", "a valid document", "none");
    }
  } catch (Error& error) {
    error.in(position_of(text, static_cast<size_t>(position - text.data())));
    throw;
  }
}

nlohmann::json parse_json(std::string_view text, const JsonLimits& limits) {
  Json root;
  MemoryBudget budget(text.size());
  JsonTreeBuilder builder(root, budget, "JSON");
  parse_json_events(text, limits, budget, builder);
  return root;
}

nlohmann::json read_json_file(const std::filesystem::path& path, const JsonLimits& limits) {
  const auto file = MappedFile::open(path);
  return with_context(file->path(), [&] {
    refuse_placeholder(file->bytes(), "a JSON document");
    const auto bytes = file->bytes();
    return parse_json({reinterpret_cast<const char*>(bytes.data()), bytes.size()}, limits);
  });
}

}  // namespace mainstem
