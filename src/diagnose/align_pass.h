#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "diagnose/align_conventions.h"
#include "diagnose/align_inputs.h"
#include "diagnose/align_place.h"

namespace mainstem {

/// What a value was read from, and how.
struct Chosen {
  size_t source = 0;
  size_t target = 0;  ///< which of the source's
  Convention convention = Convention::kNone;
  bool tried = false;  ///< nobody's name says so: it must be confirmed
  Numbers numbers = {};
  double distance = 0;  ///< from what the reference step makes of the user's own inputs
  bool close = false;   ///< within round-off
  SiteId site = {};     ///< the name that is meant, of a value with several; tokens: any
};

/// What one pass is free to choose.
struct Freedom {
  /// The target of each source; nothing: by how well they fit, in program order.
  std::vector<std::optional<size_t>> targets = {};
  /// The conventions that may be undone; nothing: all.
  std::optional<std::set<ConventionGroup>> conventions = {};
};

/// One pass in double over the user's values. At each step that some tensor may stand for, the
/// readings of the tensor are compared with what the step makes of the values chosen before, the
/// nearest is chosen, and put in the step's place.
class AlignPass {
 public:
  AlignPass(const Model& model, const Dump& dump, const DiffOptions& options,
            const std::vector<Source>& sources, const RunInputs& inputs, ArithmeticType type);

  void run(const Freedom& freedom);

  const std::map<ValueId, Chosen>& chosen() const { return chosen_; }
  /// Where two names of one value hold different numbers: what the other name holds.
  const std::multimap<ValueId, Chosen>& others() const { return others_; }
  /// The same, to be moved from when the pass is over.
  std::map<ValueId, Chosen>& chosen() { return chosen_; }
  std::multimap<ValueId, Chosen>& others() { return others_; }
  /// Sources that no target was chosen for, although one could have been.
  const std::set<size_t>& open() const { return open_; }
  /// Sources that only repeat what another holds.
  const std::vector<std::string>& notes() const { return notes_; }
  /// Conventions that were tried and that nothing behind them bears out.
  std::set<ConventionGroup> unconfirmed() const;

 private:
  struct Candidate {
    size_t source, target;
  };

  std::optional<ValueId> stream_before_layers(std::vector<SequenceInput>& inputs) const;
  void visit(const TraceEvent& event, double* data);
  std::optional<Chosen> choose(const Place& place);
  bool keep_other(const Place& place, const Chosen& best, Chosen& found);
  int order_of(const SiteId& site) const;
  Chosen read(const Place& place, const Candidate& candidate) const;
  Chosen read_source(const Place& place, size_t source) const;
  std::optional<Chosen> convention_of(const Place& place, const Chosen& plain) const;
  void finish(const Place& place, Chosen& chosen, double* data) const;
  std::set<ValueId> grounds_of(ValueId value) const;
  const Target& target(const Candidate& candidate) const {
    return sources_[candidate.source].part.targets[candidate.target];
  }

  const Model& model_;
  const Program& program_;
  const Dump& dump_;
  const DiffOptions& options_;
  const std::vector<Source>& sources_;
  const RunInputs& inputs_;
  double tolerance_;
  const Freedom* freedom_ = nullptr;
  std::map<ValueId, std::vector<Candidate>> candidates_;
  std::map<ValueId, Chosen> chosen_;
  std::multimap<ValueId, Chosen> others_;
  std::set<size_t> taken_, open_;
  std::vector<std::string> notes_;
};

}  // namespace mainstem
