#include "mainstem/score.h"

#include <algorithm>
#include <string>
#include <vector>

#include "mainstem/error.h"
#include "runtime/chunks.h"

namespace mainstem {
namespace {

constexpr int64_t kRowBytes = int64_t{32} << 20;  // float32 logits of one part
constexpr int64_t kMostBytes = int64_t{2} << 30;  // of a window that cannot go in parts
constexpr int64_t kMostRows = 512;

/// Error unless every token's logits depend on the tokens before it alone.
void expect_decoder(const Program& program) {
  const ModelSpec& spec = program.spec;
  const char* found = nullptr;
  if (spec.encoder) found = "an encoder-decoder";
  for (const BlockSpec& block : spec.stack.blocks) {
    if (block.attention.mask == MaskKind::kFull) found = "an encoder (its tokens see later ones)";
  }
  if (found == nullptr && spec.head.kind != HeadKind::kLinear) found = "a model without a head";
  if (found != nullptr) {
    throw usage_error("score", "a decoder, which predicts the next token", found);
  }
}

int64_t window_length(const ModelSpec& spec, const ScoreOptions& options, int64_t prefix) {
  const int64_t known = spec.context_length;
  if (options.context == 0 && known == 0) {
    throw usage_error("context", "a number of tokens", "none")
        .hint("the model's files do not say how long a text may be");
  }
  const int64_t length = options.context == 0 ? known : options.context;
  if (known > 0 && length > known) {
    throw usage_error("context", "at most " + std::to_string(known) + ", the model's",
                      std::to_string(length));
  }
  const int64_t least = std::max<int64_t>(prefix, 1) + 1;
  if (length < least) {
    throw usage_error("context",
                      "at least " + std::to_string(least) + " tokens, so that one is predicted",
                      std::to_string(length));
  }
  return length;
}

/// Reads windows and adds up what their tokens cost.
class Scorer {
 public:
  Scorer(const std::shared_ptr<const BoundProgram>& bound, const ScoreOptions& options)
      : program_(bound->program()),
        vocab_(program_.spec.vocab_size),
        rows_(options.rows > 0 ? options.rows : default_rows(vocab_)),
        session_(
            bound,
            {.compute = options.compute, .threads = options.threads, .cancel = options.cancel}),
        sequence_(session_.add_sequence()) {}

  /// Tokens from `first` on are predicted. `read` is told how many have gone through.
  void add_window(const std::vector<int64_t>& tokens, int64_t first,
                  const std::function<void(int64_t)>& read) {
    session_.reset(sequence_);
    const auto length = static_cast<int64_t>(tokens.size());
    const bool in_parts = can_chunk(program_, length);
    if (!in_parts) expect_fits(length);
    // Nobody asks what follows the last token; but where angles depend on how long the whole is,
    // it counts.
    const int64_t inputs = in_parts ? length - 1 : length;
    const int64_t part = in_parts ? rows_ : length;
    for (int64_t begin = 0; begin < inputs; begin += part) {
      const int64_t end = std::min(inputs, begin + part);
      const SequenceInput input{.sequence = sequence_,
                                .tokens = {tokens.begin() + begin, tokens.begin() + end}};
      const std::vector<double> logits = session_.forward_all({&input, 1});
      const std::span<const double> all(logits);
      for (int64_t t = std::max(begin, first - 1); t < std::min(end, length - 1); ++t) {
        const auto row =
            all.subspan(static_cast<size_t>((t - begin) * vocab_), static_cast<size_t>(vocab_));
        sum_ += negative_log_likelihood(row, tokens[static_cast<size_t>(t + 1)]);
        ++predicted_;
      }
      read(std::min(end + 1, length));
    }
  }

  int64_t predicted() const { return predicted_; }
  double sum() const { return sum_; }

 private:
  static int64_t default_rows(int64_t vocab) {
    const int64_t fits = kRowBytes / static_cast<int64_t>(sizeof(float)) / vocab;
    return std::clamp<int64_t>(fits, 1, kMostRows);
  }

  void expect_fits(int64_t length) const {
    if (length <= kMostBytes / static_cast<int64_t>(sizeof(double)) / vocab_) return;
    throw usage_error("context", "a window whose logits take at most 2 GiB",
                      std::to_string(length) + " tokens")
        .hint("this model's rotary scaling wants a window of this length in one pass");
  }

  const Program& program_;
  int64_t vocab_, rows_;
  Session session_;
  int64_t sequence_;
  int64_t predicted_ = 0;
  double sum_ = 0;
};

void expect_ids(std::span<const int64_t> ids, int64_t vocab) {
  for (int64_t id : ids) {
    if (id >= 0 && id < vocab) continue;
    throw usage_error("token", "an id from 0 to " + std::to_string(vocab - 1), std::to_string(id));
  }
}

}  // namespace

double negative_log_likelihood(std::span<const double> logits, int64_t target) {
  const double top = *std::max_element(logits.begin(), logits.end());
  double sum = 0;
  for (double logit : logits) sum += std::exp(logit - top);
  return std::log(sum) + (top - logits[static_cast<size_t>(target)]);
}

Score score(const std::shared_ptr<const BoundProgram>& bound, std::span<const int64_t> tokens,
            std::span<const int64_t> prefix, const ScoreOptions& options) {
  const ModelSpec& spec = bound->program().spec;
  expect_decoder(bound->program());
  const auto begin_tokens = static_cast<int64_t>(prefix.size());
  const auto total = static_cast<int64_t>(tokens.size());
  Score result{.context = window_length(spec, options, begin_tokens)};
  expect_ids(tokens, spec.vocab_size);
  expect_ids(prefix, spec.vocab_size);
  const int64_t first = std::max<int64_t>(begin_tokens, 1);  // predicted token of a window
  if (begin_tokens + total <= first) {
    throw usage_error("text", begin_tokens > 0 ? "one token at least" : "two tokens at least",
                      std::to_string(total))
        .hint("the first token of a window has nothing before it that could predict it");
  }

  Scorer scorer(bound, options);
  const int64_t own = result.context - begin_tokens;  // tokens of the text in a full window
  for (int64_t begin = 0; begin < total; begin += own) {
    const int64_t end = std::min(total, begin + own);
    std::vector<int64_t> window(prefix.begin(), prefix.end());
    window.insert(window.end(), tokens.begin() + begin, tokens.begin() + end);
    if (static_cast<int64_t>(window.size()) <= first) break;  // a last token on its own
    scorer.add_window(window, first, [&](int64_t read) {
      if (options.progress)
        options.progress(begin + std::max<int64_t>(0, read - begin_tokens), total);
    });
    ++result.windows;
  }
  result.tokens = scorer.predicted();
  result.nll = scorer.sum() / static_cast<double>(result.tokens);
  return result;
}

Score score(const Model& model, std::string_view text, const ScoreOptions& options) {
  expect_decoder(model.program());
  const Tokenizer& tokenizer = model.tokenizer();
  const std::vector<int64_t> tokens = tokenizer.encode(text, {.add_special = false});
  return score(model.bound(), tokens, tokenizer.prefix_ids(), options);
}

}  // namespace mainstem
