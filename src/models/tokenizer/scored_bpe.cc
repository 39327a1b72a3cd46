#include "models/tokenizer/scored_bpe.h"

#include <algorithm>
#include <functional>
#include <limits>
#include <numeric>
#include <string>

#include "mainstem/error.h"
#include "models/tokenizer/unicode.h"

namespace mainstem::tokenizer {
namespace {

/// Equal scores get equal ranks: of these the leftmost pair merges first.
std::vector<uint32_t> ranks_of(const std::vector<TokenSpec>& tokens) {
  std::vector<uint32_t> order(tokens.size());
  std::iota(order.begin(), order.end(), 0u);
  std::ranges::sort(order, std::greater{}, [&](uint32_t id) { return tokens[id].score; });
  std::vector<uint32_t> ranks(tokens.size());
  for (size_t i = 1; i < order.size(); ++i) {
    const bool same = tokens[order[i]].score == tokens[order[i - 1]].score;
    ranks[order[i]] = same ? ranks[order[i - 1]] : static_cast<uint32_t>(i);
  }
  return ranks;
}

}  // namespace

/// The symbols of one text while they merge: a linked list over the text, and a heap of the pairs
/// that may merge. An entry whose symbols have changed since is recognised when it comes up.
class ScoredBpe::Merging {
 public:
  Merging(const ScoredBpe& model, std::string_view text, EncodeContext& context)
      : model_(model), text_(text), context_(context) {
    cut();
    for (int32_t at = 0; at + 1 < static_cast<int32_t>(symbols_.size()); ++at) {
      if (const auto pair = pair_at(at)) heap_.push_back(*pair);
    }
    std::ranges::make_heap(heap_, std::greater{});
  }

  void run() {
    while (!heap_.empty()) {
      ++context_.work;
      const Pair top = heap_.front();
      std::ranges::pop_heap(heap_, std::greater{});
      heap_.pop_back();
      Symbol& left = symbols_[static_cast<size_t>(top.left)];
      const bool changed = left.dead || left.next < 0 || joint(top.left).size() != top.bytes;
      if (changed) continue;
      Symbol& right = symbols_[static_cast<size_t>(left.next)];
      right.dead = true;
      left.next = right.next;
      if (left.next >= 0) symbols_[static_cast<size_t>(left.next)].previous = top.left;
      push(left.previous);
      push(top.left);
    }
  }

  void append_ids(std::vector<int64_t>& ids) const {
    bool missing = false;
    std::vector<std::string_view> parts;
    for (int32_t at = symbols_.empty() ? -1 : 0; at >= 0;
         at = symbols_[static_cast<size_t>(at)].next) {
      parts.assign(1, text_of(at));
      while (!parts.empty()) {
        const std::string_view part = parts.back();
        parts.pop_back();
        const auto halves = halves_.find(part);
        if (halves != halves_.end()) {
          parts.push_back(halves->second.second);
          parts.push_back(halves->second.first);
          continue;
        }
        const int32_t id = model_.find_piece(part);
        if (id >= 0) {
          ids.push_back(id);
          missing = false;
        } else {
          missing = model_.missing_.append(part, text_, missing, context_, ids);
        }
      }
    }
  }

 private:
  struct Symbol {
    uint32_t begin;
    int32_t previous, next;
    bool frozen;  // a user-defined token
    bool dead;    // merged into the symbol before it
  };
  struct Pair {
    uint32_t rank;
    int32_t left;
    uint32_t bytes;  // of the joint text
    friend auto operator<=>(const Pair&, const Pair&) = default;
  };

  void cut() {
    for (size_t at = 0; at < text_.size();) {
      const std::string_view rest = text_.substr(at);
      const TokenTrie::Match own = model_.user_defined_.longest(rest);
      const auto index = static_cast<int32_t>(symbols_.size());
      symbols_.push_back(
          {static_cast<uint32_t>(at), index - 1, index + 1, own.length > 0, /*dead=*/false});
      at += own.length > 0 ? own.length : decode_utf8(rest).length;
      context_.work += 1 + own.looked;
    }
    if (!symbols_.empty()) symbols_.back().next = -1;
  }

  size_t end_of(int32_t at) const {
    const int32_t next = symbols_[static_cast<size_t>(at)].next;
    return next < 0 ? text_.size() : symbols_[static_cast<size_t>(next)].begin;
  }
  std::string_view text_of(int32_t at) const {
    const size_t begin = symbols_[static_cast<size_t>(at)].begin;
    return text_.substr(begin, end_of(at) - begin);
  }
  /// The text of a symbol and the next.
  std::string_view joint(int32_t at) const {
    const Symbol& left = symbols_[static_cast<size_t>(at)];
    return text_.substr(left.begin, end_of(left.next) - left.begin);
  }

  std::optional<Pair> pair_at(int32_t at) {
    if (at < 0) return std::nullopt;
    const Symbol& left = symbols_[static_cast<size_t>(at)];
    if (left.next < 0 || left.frozen) return std::nullopt;
    if (symbols_[static_cast<size_t>(left.next)].frozen) return std::nullopt;
    const std::string_view text = joint(at);
    const int32_t id = model_.find_piece(text);
    ++context_.work;
    if (id < 0) return std::nullopt;
    if (model_.has_unused_ && model_.vocab_.kind(id) == TokenKind::kUnused) {
      halves_[text] = {text_of(at), text_of(left.next)};
    }
    return Pair{model_.ranks_[static_cast<size_t>(id)], at, static_cast<uint32_t>(text.size())};
  }

  void push(int32_t at) {
    if (const auto pair = pair_at(at)) {
      heap_.push_back(*pair);
      std::ranges::push_heap(heap_, std::greater{});
    }
  }

  const ScoredBpe& model_;
  std::string_view text_;
  EncodeContext& context_;
  std::vector<Symbol> symbols_;
  std::vector<Pair> heap_;
  /// What each unused token was last made of.
  std::unordered_map<std::string_view, std::pair<std::string_view, std::string_view>> halves_;
};

ScoredBpe::ScoredBpe(const TokenizerSpec& spec, const Vocab& vocab)
    : vocab_(vocab), ranks_(ranks_of(spec.tokens)), missing_(spec, vocab) {
  std::vector<TokenTrie::Entry> own;
  for (int32_t id = 0; id < vocab.size(); ++id) {
    const TokenKind kind = vocab.kind(id);
    has_unused_ = has_unused_ || kind == TokenKind::kUnused;
    if (spec.own_user_defined && kind == TokenKind::kUserDefined) {
      own.push_back({vocab.text(id), id});
    }
  }
  user_defined_ = TokenTrie(std::move(own));
}

int32_t ScoredBpe::find_piece(std::string_view text) const {
  if (text.size() > vocab_.longest()) return -1;
  const int32_t id = vocab_.find_own(text);
  if (id < 0) return -1;
  const TokenKind kind = vocab_.kind(id);
  const bool piece =
      kind == TokenKind::kNormal || kind == TokenKind::kUserDefined || kind == TokenKind::kUnused;
  return piece ? id : -1;
}

void ScoredBpe::encode(std::string_view word, EncodeContext& context,
                       std::vector<int64_t>& ids) const {
  if (word.size() > std::numeric_limits<int32_t>::max()) {
    throw usage_error("text to encode", "words of less than 2 GB",
                      std::to_string(word.size()) + " bytes");
  }
  Merging merging(*this, word, context);
  merging.run();
  merging.append_ids(ids);
}

}  // namespace mainstem::tokenizer
