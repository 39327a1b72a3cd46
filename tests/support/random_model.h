#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "mainstem/session.h"
#include "oracle/oracle.h"

// Random specs over all axes, models with random weights, and what the tests do with them.

namespace mainstem::testing {

/// Draws that are the same with every standard library.
class Dice {
 public:
  explicit Dice(uint64_t seed) : engine_(seed) {}
  /// 0 to limit - 1.
  int64_t below(int64_t limit) {
    return static_cast<int64_t>(engine_() % static_cast<uint64_t>(limit));
  }
  int64_t between(int64_t low, int64_t high) { return low + below(high - low + 1); }
  bool chance(double probability) { return uniform(0, 1) < probability; }
  double uniform(double low, double high) {
    return low + (high - low) * static_cast<double>(engine_() >> 11) * 0x1p-53;
  }
  template <typename T>
  T pick(const std::vector<T>& from) {
    return from[static_cast<size_t>(below(static_cast<int64_t>(from.size())))];
  }

 private:
  std::mt19937_64 engine_;
};

enum class Kind { kDecoder, kEncoder, kEncoderDecoder };

/// A model of 1 to 3 blocks, each of which may differ from the others.
ModelSpec random_spec(Dice& dice, Kind kind);
BlockSpec random_block(Dice& dice, int64_t width, bool bidirectional);
/// A plain decoder with sizes that differ from each other, to start from.
ModelSpec small_decoder();

/// A program with random weights, in the file type `dtype` (what the oracle reads is the same
/// values widened).
struct TestModel {
  ModelSpec spec;
  std::map<std::string, Tensor> storage;
  WeightSources sources;
  oracle::Weights oracle_weights;
  std::shared_ptr<const BoundProgram> bound;
  bool is_block = false;
  int64_t blocks = 0;

  const Program& program() const { return bound->program(); }
};
TestModel make_model(const ModelSpec& spec, uint64_t seed, DType dtype = DType::kF32);
TestModel make_block(const BlockSpec& spec, uint64_t seed, DType dtype = DType::kF32);

/// Tokens (or rows) of a sequence, with encoder tokens where the model has an encoder.
SequenceInput random_input(const TestModel& model, Dice& dice, int64_t length);
oracle::Sequence for_oracle(const SequenceInput& input);
oracle::Trace run_oracle(const TestModel& model, const std::vector<SequenceInput>& inputs,
                         const oracle::Replacements& replace = {});

/// Values of one pass, widened, by site name.
struct Traced {
  std::vector<std::string> order;
  std::map<std::string, std::vector<int64_t>> shape;
  std::map<std::string, std::vector<double>> data;

  TraceSink sink();
};
Traced trace_all(const TestModel& model, const std::vector<SequenceInput>& inputs, Compute compute,
                 int threads = 1);

/// Columns [begin, end) of axis `axis`.
std::vector<double> slice(const std::vector<double>& data, const std::vector<int64_t>& shape,
                          size_t axis, int64_t begin, int64_t end);
/// The axis that counts query tokens (2 for scores and patterns, else 1).
size_t token_axis(const std::string& site);
bool is_square(const std::string& site);
bool is_encoder_site(const std::string& site);
/// Some rotary scaling depends on how long the sequence is.
bool depends_on_length(const ModelSpec& spec);
int64_t count_blocks(const ModelSpec& spec);

}  // namespace mainstem::testing
