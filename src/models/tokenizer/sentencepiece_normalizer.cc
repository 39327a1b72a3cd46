#include "models/tokenizer/sentencepiece_normalizer.h"

#include "models/tokenizer/normalizer_output.h"
#include "models/tokenizer/unicode.h"

namespace mainstem::tokenizer {

SentencePiecePass::SentencePiecePass(const SentencePieceStep& step) : step_(step) {
  if (!step.charsmap.empty()) map_.emplace(step.charsmap);
  std::vector<TokenTrie::Entry> entries;
  for (const std::string& text : step_.user_defined) entries.push_back({text, 0});
  user_defined_ = TokenTrie(std::move(entries));
}

SentencePiecePass::Prefix SentencePiecePass::normalize_prefix(std::string_view text) const {
  if (const TokenTrie::Match own = user_defined_.longest(text); own.length > 0) {
    return {own.length, text.substr(0, own.length)};
  }
  if (map_) {
    if (const auto match = map_->longest(text)) return {match->length, match->replacement};
  }
  const size_t length = decode_utf8(text).length;
  return {length, text.substr(0, length)};
}

std::string SentencePiecePass::apply(std::string_view text, bool at_start, Matcher&) const {
  const std::string_view space = step_.escape_whitespaces ? "\u2581" : " ";
  const bool merge_spaces = step_.remove_extra_whitespaces;
  while (merge_spaces && !text.empty()) {
    const Prefix prefix = normalize_prefix(text);
    if (prefix.normalized != " ") break;
    text.remove_prefix(prefix.length);
  }
  if (text.empty()) return {};

  NormalizerOutput out(text);
  if (step_.add_dummy_prefix && (at_start || !step_.only_at_start)) out.append(space);
  bool after_space = merge_spaces;
  while (!text.empty()) {
    const Prefix prefix = normalize_prefix(text);
    text.remove_prefix(prefix.length);
    std::string_view part = prefix.normalized;
    while (after_space && part.starts_with(' ')) part.remove_prefix(1);
    if (part.empty()) continue;
    after_space = merge_spaces && part.ends_with(' ');
    for (size_t at = part.find(' '); at != part.npos; at = part.find(' ')) {
      out.append(part.substr(0, at));
      out.append(space);
      part.remove_prefix(at + 1);
    }
    out.append(part);
  }
  while (merge_spaces && out.text().ends_with(space)) out.cut(out.text().size() - space.size());
  return out.take();
}

}  // namespace mainstem::tokenizer
