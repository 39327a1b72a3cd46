// The lesson's failure modes, checked on any program.

#include "mainstem/check.h"

#include <algorithm>
#include <array>

#include "diagnose/checker.h"
#include "mainstem/rng.h"

namespace mainstem {

namespace {

// What the stages take. A pass in double runs in plain loops, and every site of it is counted.
constexpr int64_t kPass = 10000, kDoublePass = 10 * kPass;

}  // namespace

struct Checker::Stages {
  struct Stage {
    void (Checker::*check)();
    int64_t work;
  };
  static constexpr std::array kAll = {Stage{&Checker::check_weights, kPass},
                                      Stage{&Checker::check_shape, kPass},
                                      Stage{&Checker::check_causal, 4 * 9 * kPass},
                                      Stage{&Checker::check_zero_input, kPass},
                                      Stage{&Checker::check_batch, 3 * kPass},
                                      Stage{&Checker::check_decode, 5 * kDoublePass},
                                      Stage{&Checker::check_residual, kPass},
                                      Stage{&Checker::check_norm_weights, 2 * kDoublePass},
                                      Stage{&Checker::compare_with_spec, 2 * kDoublePass}};
  static constexpr int64_t work() {
    int64_t sum = 0;
    for (const Stage& stage : kAll) sum += stage.work;
    return sum;
  }
};

Checker::Checker(const Program& program, const WeightSources& weights, const CheckOptions& options)
    : program_(program),
      weights_(weights),
      threads_(options.threads),
      meter_(options.progress, Stages::work()),
      bound_(std::make_shared<BoundProgram>(program, weights)) {}

std::vector<CheckResult> Checker::run() {
  for (const Stages::Stage& stage : Stages::kAll) {
    meter_.begin_stage(stage.work);
    (this->*stage.check)();
  }
  meter_.finish();
  return std::move(results_);
}

std::function<void()> Checker::count_sites(size_t sites) {
  const int64_t each = kDoublePass / static_cast<int64_t>(std::max<size_t>(sites, 1));
  return [this, each] { meter_.advance(each); };
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

std::vector<double> Checker::output_rows(const SequenceInput& input) {
  meter_.advance(kPass);
  Session session(bound_, {.compute = Compute::kF32, .threads = threads_});
  SequenceInput own = input;
  own.sequence = session.add_sequence();
  return session.forward_all({&own, 1});
}

std::vector<double> Checker::decode_rows(const SequenceInput& input) {
  Session session(bound_, {.compute = Compute::kF32, .threads = threads_});
  const int64_t sequence = session.add_sequence();
  std::vector<double> rows;
  const int64_t width = program_.spec.stack.width;
  const auto tokens = block_only() ? static_cast<int64_t>(input.input.size()) / width
                                   : static_cast<int64_t>(input.tokens.size());
  for (int64_t t = 0; t < tokens; ++t) {
    SequenceInput step = one_token(input, t);
    step.sequence = sequence;
    meter_.advance(kPass);
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

std::vector<CheckResult> check(const Program& program, const WeightSources& weights,
                               const CheckOptions& options) {
  return Checker(program, weights, options).run();
}

}  // namespace mainstem
