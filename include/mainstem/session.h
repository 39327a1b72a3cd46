#pragma once

#include <atomic>
#include <cstdint>
#include <exception>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "mainstem/arithmetic.h"
#include "mainstem/program.h"
#include "mainstem/trace.h"
#include "mainstem/weights.h"

namespace mainstem {

/// The arithmetic of a pass.
enum class Compute : uint8_t {
  kFast,          ///< float32; inputs of products with quantised weights rounded to 8 bits
  kF32,           ///< float32 throughout; quantised weights expanded exactly
  kF64,           ///< double: the plain loops, but for products, which are blocked
  kF32Reference,  ///< the plain loops in float32, for tests
  kF64Reference,  ///< the plain loops in double, products too, for tests
};

/// A program and its weights: what every session of a model shares. Thread-safe to share.
class BoundProgram {
 public:
  /// Checks that every weight is there and fits. The sources' memory must outlive this object
  /// (or be held by their keep_alive).
  BoundProgram(Program program, const WeightSources& sources);
  ~BoundProgram();
  BoundProgram(const BoundProgram&) = delete;
  BoundProgram& operator=(const BoundProgram&) = delete;

  const Program& program() const { return program_; }
  /// Bytes of all weights as they are stored.
  int64_t weight_bytes() const;

 private:
  friend class Session;
  Program program_;
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// Tokens of one sequence for one pass.
struct SequenceInput {
  int64_t sequence = 0;              ///< as add_sequence() numbered it
  std::vector<int64_t> tokens = {};  ///< [T]
  /// Encoder-decoder models: what the encoder reads, in the sequence's first pass and never again
  /// (until it is reset).
  std::vector<int64_t> encoder_tokens = {};
  std::vector<int64_t> token_types = {};  ///< [T] or empty (all 0)
  std::vector<int64_t> positions = {};    ///< [T] or empty (counted, padding not)
  int64_t left_padding = 0;               ///< leading tokens nobody may see; first pass only
  int64_t encoder_left_padding = 0;
  std::vector<double> input = {};  ///< [T,D]: rows of a block on its own, instead of tokens
};

/// What ends a pass whose cancel flag was set. The sequences keep what they held before it.
struct Cancelled : std::exception {
  const char* what() const noexcept override { return "cancelled"; }
};

struct SessionOptions {
  Compute compute = Compute::kF32;
  int threads = 0;                 ///< 0: all that this process may use
  std::vector<SiteId> sites = {};  ///< values to deliver in every pass
  int64_t chunk = 512;             ///< longest prefill done in one pass when nothing is traced
  /// Once it is true (a signal handler may set it) a running pass soon ends by Cancelled, and so
  /// does each new one. Looked at between steps and inside the slow plain loops.
  const std::atomic<bool>* cancel = nullptr;
  /// With Compute::kF64 only: every step computes as an implementation of that arithmetic would.
  /// Values are still delivered in double, but are such as the arithmetic can hold. What a patch
  /// wrote is kept as it is. The bits depend on the instruction set, not on the threads.
  Arithmetic arithmetic = {};
};

/// Sequences and their key/value caches over one bound program. Not thread-safe.
///
/// Where rotary positions go by the length of the text (dynamic scaling, longrope), each sequence
/// goes by its own. One that outgrows longrope's original context is read anew once, so that what
/// it gives does not depend on the passes it came in; with dynamic scaling cached keys stay as they
/// were turned.
class Session {
 public:
  Session(std::shared_ptr<const BoundProgram> bound, SessionOptions options);
  ~Session();
  Session(Session&&) noexcept;
  Session& operator=(Session&&) noexcept;

  int64_t add_sequence();
  /// Forgets everything the sequence holds.
  void reset(int64_t sequence);
  /// Positions in the cache.
  int64_t length(int64_t sequence) const;

  /// One pass over all given sequences (prefill, decode or a mixture). Returns the output rows
  /// (logits [rows, V], or the last stream value of a model without a head) of each sequence's
  /// last token, one row per sequence. Wanted values go to the sink.
  std::vector<float> forward(std::span<const SequenceInput> inputs, const TraceSink& sink = {});
  /// The same with the output rows of every token, sequence after sequence.
  std::vector<double> forward_all(std::span<const SequenceInput> inputs, const TraceSink& sink = {},
                                  const ValuePatch& patch = {});
  /// One pass with the output rows of every token, of which only the sink sees anything.
  void observe(std::span<const SequenceInput> inputs, const TraceSink& sink);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// All values of one pass in double, kept: site name → tensor. Convenience over Session.
struct TracedValue {
  SiteId site;
  Tensor value;
};
std::vector<TracedValue> trace(const std::shared_ptr<const BoundProgram>& bound,
                               std::span<const SequenceInput> inputs, std::vector<SiteId> sites,
                               Compute compute, int threads = 0);
/// Every site of a program.
std::vector<SiteId> all_sites(const Program& program);

}  // namespace mainstem
