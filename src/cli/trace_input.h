#pragma once

#include <cstdint>
#include <vector>

#include "mainstem/session.h"
#include "mainstem/stored_tensor.h"

namespace mainstem::cli {

/// Sequences of one stack, the shorter ones padded on the left to the length of the longest.
class PaddedBatch {
 public:
  PaddedBatch() = default;
  /// None of the sequences is empty.
  explicit PaddedBatch(std::vector<std::vector<int64_t>> sequences);

  int64_t size() const { return static_cast<int64_t>(sequences_.size()); }  ///< B
  int64_t tokens() const { return tokens_; }                                ///< T, of the longest
  /// Without padding.
  const std::vector<std::vector<int64_t>>& sequences() const { return sequences_; }
  /// Leading tokens of a row that nobody may see.
  int64_t padding(int64_t row) const;
  std::vector<int64_t> padded(int64_t row) const;

  TensorView ids() const { return view(ids_); }              ///< [B,T], padding is 0
  TensorView positions() const { return view(positions_); }  ///< [B,T], padding is 0
  TensorView key_mask() const { return view(key_mask_); }    ///< [B,T], 1: may be seen

 private:
  TensorView view(const std::vector<int64_t>& values) const {
    return {DType::kI64, {size(), tokens()}, values.data()};
  }

  std::vector<std::vector<int64_t>> sequences_;
  int64_t tokens_ = 0;
  std::vector<int64_t> ids_, positions_, key_mask_;
};

/// What a trace reads: one sequence or a batch, of an encoder-decoder for both stacks.
class TraceInput {
 public:
  /// Inputs without padding, one at least.
  explicit TraceInput(const std::vector<SequenceInput>& inputs);

  bool is_batch() const { return main_.size() > 1; }
  bool encodes() const { return encoder_.tokens() > 0; }
  /// The decoder's tokens, where there is an encoder.
  const PaddedBatch& main() const { return main_; }
  const PaddedBatch& encoder() const { return encoder_; }
  /// As inputs of a pass, each a new sequence of the session.
  std::vector<SequenceInput> add_to(Session& session) const;
  /// What a file holds beside the steps: the tokens, of a batch also positions and masks. They
  /// point into this object.
  std::vector<NamedTensor> companions() const;

 private:
  PaddedBatch main_, encoder_;
};

}  // namespace mainstem::cli
