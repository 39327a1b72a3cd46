#include "models/tokenizer/word_piece.h"

#include <algorithm>

#include "models/tokenizer/unicode.h"

namespace mainstem::tokenizer {
namespace {

bool has_more_characters(std::string_view word, size_t most) {
  size_t count = 0;
  for (size_t at = 0; at < word.size(); at += decode_utf8(word.substr(at)).length) {
    if (++count > most) return true;
  }
  return false;
}

}  // namespace

WordPiece::WordPiece(const TokenizerSpec& spec, const Vocab& vocab)
    : missing_id_(spec.missing_id),
      max_characters_(static_cast<size_t>(std::max<int64_t>(spec.max_word_characters, 0))) {
  std::vector<TokenTrie::Entry> first;
  std::vector<TokenTrie::Entry> next;
  for (int32_t id = 0; id < vocab.size(); ++id) {
    const std::string_view text = vocab.text(id);
    if (vocab.find_own(text) != id) continue;
    first.push_back({text, id});
    if (text.starts_with(spec.continuing_prefix)) {
      next.push_back({text.substr(spec.continuing_prefix.size()), id});
    }
  }
  first_ = TokenTrie(std::move(first));
  next_ = TokenTrie(std::move(next));
}

void WordPiece::encode(std::string_view word, EncodeContext& context,
                       std::vector<int64_t>& ids) const {
  const size_t before = ids.size();
  bool whole = !has_more_characters(word, max_characters_);
  for (std::string_view rest = word; whole && !rest.empty();) {
    const TokenTrie& trie = rest.size() == word.size() ? first_ : next_;
    const TokenTrie::Match match = trie.longest(rest);
    context.work += 1 + match.looked;
    whole = match.length > 0;
    if (whole) ids.push_back(match.value);
    rest.remove_prefix(match.length);
  }
  if (whole) return;
  ids.resize(before);
  if (missing_id_) {
    ids.push_back(*missing_id_);
  } else if (context.missing == MissingByte::kError) {
    refuse_missing(word, word);
  }
}

}  // namespace mainstem::tokenizer
