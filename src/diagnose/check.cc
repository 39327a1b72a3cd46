// The lesson's failure modes, checked on any program.

#include "mainstem/check.h"

#include <algorithm>

#include "diagnose/checker.h"
#include "mainstem/rng.h"

namespace mainstem {

Checker::Checker(const Program& program, const WeightSources& weights, int threads)
    : program_(program),
      weights_(weights),
      threads_(threads),
      bound_(std::make_shared<BoundProgram>(program, weights)) {}

std::vector<CheckResult> Checker::run() {
  check_weights();
  check_shape();
  check_causal();
  check_zero_input();
  check_batch();
  check_decode();
  check_residual();
  check_norm_weights();
  compare_with_spec();
  return std::move(results_);
}

SequenceInput Checker::make_input(int64_t tokens, uint64_t seed) const {
  Generator generator(seed);
  SequenceInput input;
  if (block_only()) {
    input.input.resize(static_cast<size_t>(tokens * program_.spec.stack.width));
    generator.randn(std::span<double>(input.input));
    return input;
  }
  input.tokens.resize(static_cast<size_t>(tokens));
  generator.randint(input.tokens, 0, program_.spec.vocab_size);
  if (program_.spec.encoder) {
    input.encoder_tokens.resize(static_cast<size_t>(tokens + 1));
    generator.randint(input.encoder_tokens, 0, program_.spec.vocab_size);
  }
  return input;
}

void Checker::corrupt(SequenceInput& input, int64_t position) const {
  if (block_only()) {
    const auto width = static_cast<size_t>(program_.spec.stack.width);
    std::fill_n(input.input.begin() + position * program_.spec.stack.width, width, 999.0);
    return;
  }
  int64_t& token = input.tokens[static_cast<size_t>(position)];
  token = (token + 1) % program_.spec.vocab_size;
}

int64_t Checker::length() const {
  int64_t tokens = 8;
  if (program_.spec.stack.positions == PositionKind::kLearned) {
    tokens =
        std::min(tokens, program_.spec.stack.position_rows - program_.spec.stack.position_offset);
  }
  return std::max<int64_t>(tokens, 1);
}

SequenceInput Checker::one_token(const SequenceInput& input, int64_t t) const {
  SequenceInput step;
  if (block_only()) {
    const int64_t width = program_.spec.stack.width;
    step.input.assign(input.input.begin() + t * width, input.input.begin() + (t + 1) * width);
    return step;
  }
  step.tokens = {input.tokens[static_cast<size_t>(t)]};
  if (t == 0) step.encoder_tokens = input.encoder_tokens;
  return step;
}

std::vector<double> Checker::output_rows(const SequenceInput& input) const {
  Session session(bound_, {.compute = Compute::kF32, .threads = threads_});
  SequenceInput own = input;
  own.sequence = session.add_sequence();
  return session.forward_all({&own, 1});
}

std::vector<double> Checker::decode_rows(const SequenceInput& input) const {
  Session session(bound_, {.compute = Compute::kF32, .threads = threads_});
  const int64_t sequence = session.add_sequence();
  std::vector<double> rows;
  const int64_t width = program_.spec.stack.width;
  const auto tokens = block_only() ? static_cast<int64_t>(input.input.size()) / width
                                   : static_cast<int64_t>(input.tokens.size());
  for (int64_t t = 0; t < tokens; ++t) {
    SequenceInput step = one_token(input, t);
    step.sequence = sequence;
    const std::vector<double> row = session.forward_all({&step, 1});
    rows.insert(rows.end(), row.begin(), row.end());
  }
  return rows;
}

void Checker::report(const char* id, bool good, std::string detail) {
  results_.push_back({id, good ? CheckStatus::kOk : CheckStatus::kFailed, std::move(detail)});
}

void Checker::skip(const char* id, std::string why) {
  results_.push_back({id, CheckStatus::kNotApplicable, std::move(why)});
}

std::string_view name(CheckStatus status) {
  switch (status) {
    case CheckStatus::kOk:
      return "ok";
    case CheckStatus::kFailed:
      return "failed";
    case CheckStatus::kNotApplicable:
      return "not applicable";
  }
  return "?";
}

std::vector<CheckResult> check(const Program& program, const WeightSources& weights, int threads) {
  return Checker(program, weights, threads).run();
}

}  // namespace mainstem
