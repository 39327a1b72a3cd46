#include "models/tokenizer/unigram.h"

#include <algorithm>
#include <limits>
#include <string>

#include "mainstem/error.h"
#include "models/tokenizer/unicode.h"

namespace mainstem::tokenizer {
namespace {

constexpr double kUnknownPenalty = 10;
constexpr int32_t kUnknown = -1;

/// The best cut of the text up to one place.
template <typename Sum>
struct Best {
  Sum score = 0;
  int32_t begin = -1;  // of its last token; -1: no cut leads here
  int32_t id = kUnknown;
};

}  // namespace

Unigram::Unigram(const TokenizerSpec& spec, const Vocab& vocab)
    : user_defined_(spec.tokens.size()),
      single_precision_(spec.single_precision),
      missing_(spec, vocab) {
  std::vector<TokenTrie::Entry> entries;
  double lowest = std::numeric_limits<double>::infinity();
  highest_ = -lowest;
  for (int32_t id = 0; id < vocab.size(); ++id) {
    const TokenSpec& token = spec.tokens[static_cast<size_t>(id)];
    scores_.push_back(token.score);
    if (!token.in_model) continue;
    if (token.kind == TokenKind::kNormal) {
      lowest = std::min(lowest, token.score);
      highest_ = std::max(highest_, token.score);
    }
    const bool own = token.kind == TokenKind::kUserDefined;
    if (token.kind != TokenKind::kNormal && !own) continue;
    user_defined_[static_cast<size_t>(id)] = own && spec.own_user_defined;
    entries.push_back({token.text, id});
  }
  if (lowest > highest_) lowest = highest_ = 0;
  unknown_score_ = lowest - kUnknownPenalty;
  trie_ = TokenTrie(std::move(entries));
}

void Unigram::encode(std::string_view word, EncodeContext& context,
                     std::vector<int64_t>& ids) const {
  if (word.size() >= std::numeric_limits<int32_t>::max()) {
    throw usage_error("text to encode", "words of less than 2 GB",
                      std::to_string(word.size()) + " bytes");
  }
  if (single_precision_) {
    encode_with<float>(word, context, ids);
  } else {
    encode_with<double>(word, context, ids);
  }
}

template <typename Sum>
void Unigram::encode_with(std::string_view word, EncodeContext& context,
                          std::vector<int64_t>& ids) const {
  std::vector<Best<Sum>> best(word.size() + 1);
  for (size_t begin = 0; begin < word.size();) {
    const std::string_view rest = word.substr(begin);
    const Sum so_far = best[begin].score;
    const auto offer = [&](size_t length, int32_t id, double candidate) {
      Best<Sum>& target = best[begin + length];
      if (target.begin >= 0 && !(candidate > static_cast<double>(target.score))) return;
      target = {static_cast<Sum>(candidate), static_cast<int32_t>(begin), id};
    };
    const size_t character = decode_utf8(rest).length;
    bool covered = false;
    context.work += 1 + trie_.visit_prefixes(rest, [&](size_t length, int32_t id) {
      const auto i = static_cast<size_t>(id);
      // A user-defined token gets more than any cut of its text could.
      offer(length, id,
            user_defined_[i]
                ? static_cast<double>(length) * highest_ - 0.1 + static_cast<double>(so_far)
                : static_cast<double>(static_cast<Sum>(scores_[i]) + so_far));
      covered = covered || length == character;
    });
    if (!covered) {
      offer(character, kUnknown, static_cast<double>(static_cast<Sum>(unknown_score_) + so_far));
    }
    begin += character;
  }

  std::vector<int32_t> begins;
  for (auto end = static_cast<int32_t>(word.size()); end > 0;) {
    begins.push_back(end);
    end = best[static_cast<size_t>(end)].begin;
  }
  bool missing = false;
  size_t begin = 0;
  for (size_t i = begins.size(); i-- > 0;) {
    const auto end = static_cast<size_t>(begins[i]);
    if (best[end].id != kUnknown) {
      ids.push_back(best[end].id);
      missing = false;
    } else {
      missing = missing_.append(word.substr(begin, end - begin), word, missing, context, ids);
    }
    begin = end;
  }
}

}  // namespace mainstem::tokenizer
