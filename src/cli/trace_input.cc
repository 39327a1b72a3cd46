#include "cli/trace_input.h"

#include <algorithm>
#include <utility>

namespace mainstem::cli {

PaddedBatch::PaddedBatch(std::vector<std::vector<int64_t>> sequences)
    : sequences_(std::move(sequences)) {
  for (const auto& sequence : sequences_) tokens_ = std::max(tokens_, std::ssize(sequence));
  for (const auto& sequence : sequences_) {
    const int64_t padding = tokens_ - std::ssize(sequence);
    for (int64_t t = 0; t < tokens_; ++t) {
      const int64_t position = t - padding;
      ids_.push_back(position < 0 ? 0 : sequence[static_cast<size_t>(position)]);
      positions_.push_back(std::max<int64_t>(position, 0));
      key_mask_.push_back(position < 0 ? 0 : 1);
    }
  }
}

int64_t PaddedBatch::padding(int64_t row) const {
  return tokens_ - std::ssize(sequences_[static_cast<size_t>(row)]);
}

std::vector<int64_t> PaddedBatch::padded(int64_t row) const {
  const auto begin = ids_.begin() + row * tokens_;
  return {begin, begin + tokens_};
}

TraceInput::TraceInput(const std::vector<SequenceInput>& inputs) {
  std::vector<std::vector<int64_t>> main, encoder;
  for (const SequenceInput& input : inputs) {
    main.push_back(input.tokens);
    if (!input.encoder_tokens.empty()) encoder.push_back(input.encoder_tokens);
  }
  main_ = PaddedBatch(std::move(main));
  encoder_ = PaddedBatch(std::move(encoder));
}

std::vector<SequenceInput> TraceInput::add_to(Session& session) const {
  std::vector<SequenceInput> inputs;
  for (int64_t b = 0; b < main_.size(); ++b) {
    SequenceInput input{.sequence = session.add_sequence(),
                        .tokens = main_.padded(b),
                        .left_padding = main_.padding(b)};
    if (encodes()) {
      input.encoder_tokens = encoder_.padded(b);
      input.encoder_left_padding = encoder_.padding(b);
    }
    inputs.push_back(std::move(input));
  }
  return inputs;
}

std::vector<NamedTensor> TraceInput::companions() const {
  std::vector<NamedTensor> result;
  const auto add = [&](const std::string& stack, const PaddedBatch& batch) {
    result.push_back({stack + "tokens", batch.ids()});
    if (!is_batch()) return;
    result.push_back({stack + "positions", batch.positions()});
    result.push_back({stack + "key_mask", batch.key_mask()});
  };
  if (encodes()) add("encoder.", encoder_);
  add(encodes() ? "decoder." : "", main_);
  return result;
}

}  // namespace mainstem::cli
