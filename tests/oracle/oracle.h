#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "mainstem/spec.h"

// A second forward in plain loops over double, written from the papers and from the behaviour of
// transformers. It exists to disagree with the library, so it shares nothing with it but the spec's
// structs: no steps, no plan, no cache, one sequence at a time, [T] rows of everything at once.

namespace mainstem::oracle {

/// Values of one site. `magnitude` holds, for every element, the sum of the absolute terms that
/// were added up to make it: what rounding errors are measured against.
struct Values {
  std::vector<int64_t> shape;
  std::vector<double> data;
  std::vector<double> magnitude;
  /// Terms of the longest sum behind one element.
  int64_t terms = 1;
};

/// By the program's weight names; matrices row-major [out, in].
using Weights = std::map<std::string, std::vector<double>>;

struct Sequence {
  std::vector<int64_t> tokens;
  std::vector<int64_t> positions;    ///< empty: counted, padding not
  std::vector<int64_t> token_types;  ///< empty: all 0
  int64_t left_padding = 0;
  std::vector<int64_t> encoder_tokens;
  int64_t encoder_left_padding = 0;
  std::vector<double> input;  ///< [T,D]: of a block on its own
};

/// Site names and values in firing order, second names included.
class Trace {
 public:
  void add(const std::string& name, const Values& values);
  bool contains(const std::string& name) const { return index_.contains(name); }
  const Values& at(const std::string& name) const;
  const std::vector<std::pair<std::string, Values>>& all() const { return list_; }

 private:
  std::vector<std::pair<std::string, Values>> list_;
  std::map<std::string, size_t> index_;
};

/// Values that take the place of the computed ones once they have been recorded: with all values
/// of another forward given, every recorded value is one step away from that forward's own inputs.
using Replacements = std::map<std::string, std::vector<double>>;

/// All sites of one sequence, shapes as in the contract with B = 1.
Trace run(const ModelSpec& spec, const Weights& weights, const Sequence& sequence,
          const Replacements& replace = {});
Trace run_block(const BlockSpec& spec, const Weights& weights, const Sequence& sequence,
                const Replacements& replace = {});

/// Equally long traces put together along the batch axis.
Trace batch(const std::vector<Trace>& traces);

}  // namespace mainstem::oracle
