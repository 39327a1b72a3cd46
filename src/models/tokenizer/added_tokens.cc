#include "models/tokenizer/added_tokens.h"

#include <algorithm>
#include <functional>
#include <utility>

#include "io/text.h"
#include "mainstem/error.h"

namespace mainstem::tokenizer {
namespace {

constexpr size_t kMaxContentBytes = 4096;

bool is_word(uint32_t code_point) {
  static const CodePointSet kWord = CodePointSet::word();
  return kWord.contains(code_point);
}

bool ends_with_word(std::string_view text) {
  size_t length = 0;
  return !text.empty() && is_word(last_code_point(text, length));
}

bool starts_with_word(std::string_view text) {
  return !text.empty() && is_word(decode_utf8(text).code_point);
}

}  // namespace

AddedTokens::AddedTokens(std::vector<AddedToken> tokens) : tokens_(std::move(tokens)) {
  std::erase_if(tokens_, [](const AddedToken& token) { return token.content.empty(); });
  by_content_.reserve(tokens_.size());
  for (size_t i = 0; i < tokens_.size(); ++i) {
    const std::string& content = tokens_[i].content;
    if (content.size() > kMaxContentBytes) {
      throw bad_input("added token " + std::to_string(tokens_[i].id), "at most 4096 bytes of text",
                      std::to_string(content.size()));
    }
    if (!by_content_.emplace(content, i).second) continue;
    std::vector<uint32_t>& lengths = lengths_[static_cast<uint8_t>(content[0])];
    const auto length = static_cast<uint32_t>(content.size());
    const auto place = std::ranges::lower_bound(lengths, length, std::greater{});
    if (place == lengths.end() || *place != length) lengths.insert(place, length);
  }
}

const AddedToken* AddedTokens::find(std::string_view content) const {
  const auto found = by_content_.find(content);
  return found == by_content_.end() ? nullptr : &tokens_[found->second];
}

const AddedToken* AddedTokens::longest_at(std::string_view text) const {
  for (const uint32_t length : lengths_[static_cast<uint8_t>(text[0])]) {
    if (length > text.size()) continue;
    if (const AddedToken* token = find(text.substr(0, length))) return token;
  }
  return nullptr;
}

void AddedTokens::split(std::string_view text, bool parse_special,
                        std::vector<Segment>& segments) const {
  size_t done = 0;  // all before it is in a segment
  for (size_t at = 0; at < text.size();) {
    if (lengths_[static_cast<uint8_t>(text[at])].empty()) {
      ++at;
      continue;
    }
    const AddedToken* token = longest_at(text.substr(at));
    if (token == nullptr) {
      ++at;
      continue;
    }
    size_t begin = at;
    size_t end = at + token->content.size();
    at = end;
    if (token->special && !parse_special) continue;
    if (token->single_word &&
        (ends_with_word(text.substr(0, begin)) || starts_with_word(text.substr(end)))) {
      continue;
    }
    if (begin < done) continue;  // the token before took it along with the white space
    if (token->strip_left) begin -= white_space_at_end(text.substr(done, begin - done));
    if (token->strip_right) end += white_space_at_start(text.substr(end));
    if (begin > done) segments.push_back({text.substr(done, begin - done)});
    segments.push_back({text.substr(begin, end - begin), token->id});
    done = end;
  }
  if (done < text.size()) segments.push_back({text.substr(done)});
}

}  // namespace mainstem::tokenizer
