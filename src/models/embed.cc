#include "mainstem/embed.h"

#include <algorithm>
#include <cmath>

#include "mainstem/error.h"

namespace mainstem {
namespace {

/// Error unless every token sees all others, so that each row is about the whole text.
void expect_encoder(const Model& model) {
  const ModelSpec& spec = model.spec();
  const char* found = nullptr;
  for (const BlockSpec& block : spec.stack.blocks) {
    if (block.attention.mask != MaskKind::kFull) {
      found = "a decoder (its tokens do not see later ones)";
    }
  }
  if (spec.encoder) found = "an encoder-decoder";
  if (found == nullptr) return;
  throw usage_error("embed", "an encoder, whose tokens see all others", found)
      .in(model.path().string());
}

/// The model without its head.
std::shared_ptr<const BoundProgram> headless(const Model& model) {
  if (model.spec().head.kind == HeadKind::kNone) return model.bound();
  ModelSpec spec = model.spec();
  spec.head = HeadSpec{};
  spec.head.kind = HeadKind::kNone;
  Program program = build_program(spec);
  WeightSources sources;
  for (const WeightInfo& weight : program.weights) {
    sources.emplace(weight.name, model.weights().at(weight.name));
  }
  return std::make_shared<const BoundProgram>(std::move(program), sources);
}

void expect_sequence(const std::vector<int64_t>& ids) {
  if (ids.empty()) throw usage_error("text", "one token at least", "none");
}

/// rows [T,D] → [D].
std::vector<double> pool(std::span<const double> rows, size_t width, Pooling pooling) {
  const size_t tokens = rows.size() / width;
  std::vector<double> result(rows.begin(), rows.begin() + static_cast<std::ptrdiff_t>(width));
  if (pooling == Pooling::kCls) return result;
  for (size_t t = 1; t < tokens; ++t) {
    for (size_t d = 0; d < width; ++d) {
      const double value = rows[t * width + d];
      if (pooling != Pooling::kMax) {
        result[d] += value;
      } else if (!(value <= result[d])) {  // NaN stays
        result[d] = std::isnan(result[d]) ? result[d] : value;
      }
    }
  }
  if (pooling == Pooling::kMax) return result;
  const auto count = static_cast<double>(tokens);
  const double divisor = pooling == Pooling::kMean ? count : std::sqrt(count);
  for (double& value : result) value /= divisor;
  return result;
}

void normalize(std::vector<double>& vector) {
  double squares = 0;
  for (const double value : vector) squares += value * value;
  const double length = std::sqrt(squares);
  if (length == 0) return;
  for (double& value : vector) value /= length;
}

}  // namespace

std::string_view name(Pooling pooling) {
  switch (pooling) {
    case Pooling::kMean:
      return "mean";
    case Pooling::kCls:
      return "cls";
    case Pooling::kMax:
      return "max";
    case Pooling::kMeanSqrtLen:
      return "mean-sqrt-length";
  }
  return "?";
}

std::vector<std::vector<double>> embed(const Model& model,
                                       std::span<const std::vector<int64_t>> sequences,
                                       const EmbedOptions& options) {
  expect_encoder(model);
  if (options.pass_tokens < 1) {
    throw usage_error("tokens of a pass", "1 or more", std::to_string(options.pass_tokens));
  }
  std::for_each(sequences.begin(), sequences.end(), expect_sequence);
  Session session(headless(model), {.compute = options.compute, .threads = options.threads});
  const auto width = static_cast<size_t>(model.spec().stack.width);
  std::vector<int64_t> slots;  // the session's sequences, used again in every pass
  std::vector<std::vector<double>> vectors;
  vectors.reserve(sequences.size());
  for (size_t begin = 0; begin < sequences.size();) {
    std::vector<SequenceInput> pass;
    int64_t tokens = 0;
    for (size_t i = begin; i < sequences.size(); ++i) {
      tokens += std::ssize(sequences[i]);
      if (i > begin && tokens > options.pass_tokens) break;
      if (pass.size() == slots.size()) slots.push_back(session.add_sequence());
      pass.push_back({.sequence = slots[pass.size()], .tokens = sequences[i]});
    }
    const std::vector<double> rows = session.forward_all(pass);
    std::span<const double> rest(rows);
    for (const SequenceInput& input : pass) {
      const size_t count = input.tokens.size() * width;
      vectors.push_back(pool(rest.first(count), width, options.rules.pooling));
      if (options.rules.normalize) normalize(vectors.back());
      rest = rest.subspan(count);
      session.reset(input.sequence);
    }
    begin += pass.size();
    if (options.progress) {
      options.progress(static_cast<int64_t>(begin), static_cast<int64_t>(sequences.size()));
    }
  }
  return vectors;
}

std::vector<int64_t> embedding_ids(const Model& model, std::string_view text,
                                   const EmbeddingRules& rules) {
  const Tokenizer& tokenizer = model.tokenizer();
  std::vector<int64_t> ids = tokenizer.encode(rules.prompt + std::string(text));
  if (rules.max_tokens == 0 || std::ssize(ids) <= rules.max_tokens) return ids;
  // The text is cut, not the tokens behind it.
  const auto& suffix = tokenizer.suffix_ids();
  const auto behind = static_cast<std::ptrdiff_t>(suffix.size());
  const int64_t kept = std::max<int64_t>(rules.max_tokens - behind, 0);
  ids.resize(static_cast<size_t>(kept));
  ids.insert(ids.end(), suffix.begin(), suffix.end());
  return ids;
}

}  // namespace mainstem
