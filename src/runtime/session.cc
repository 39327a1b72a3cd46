#include "mainstem/session.h"

#include <algorithm>
#include <mutex>
#include <utility>

#include "mainstem/error.h"
#include "runtime/chunks.h"
#include "runtime/executor.h"
#include "runtime/history.h"

namespace mainstem {

struct BoundProgram::Impl {
  Impl(const Program& program, const WeightSources& sources) : weights(program, sources) {}
  BoundWeights weights;
  std::mutex packing;
};

BoundProgram::BoundProgram(Program program, const WeightSources& sources)
    : program_(std::move(program)) {
  validate(program_);
  impl_ = std::make_unique<Impl>(program_, sources);
}
BoundProgram::~BoundProgram() = default;

int64_t BoundProgram::weight_bytes() const { return impl_->weights.stored_bytes(); }

namespace {

/// The sequences and executors of one element type.
template <typename T>
class Engine {
 public:
  Engine(const BoundProgram& bound, const BoundWeights& weights, const SessionOptions& options)
      : program_(bound.program()), switches_(switch_lengths(bound.program())) {
    ExecutorOptions executor{.plain_products = options.compute == Compute::kF64Reference,
                             .rules = reference::rules_of(options.arithmetic),
                             .cancel = options.cancel};
    PlanOptions plan{.wanted = options.sites};
    if constexpr (std::is_same_v<T, float>) {
      if (options.compute != Compute::kF32Reference) {
        executor.kernels = &kernels::cpu_kernels();
        plan.fuse = true;
      }
      if (options.compute == Compute::kFast) {
        executor.precision = kernels::InputPrecision::kInt8;
      }
    }
    full_ = std::make_unique<Executor<T>>(program_, weights, make_plan(program_, plan), executor);
    if (!program_.spec.encoder) return;
    plan.skip_encoder = true;
    decode_ = std::make_unique<Executor<T>>(program_, weights, make_plan(program_, plan), executor);
  }

  int64_t add() {
    states_.push_back(full_->new_state());
    histories_.push_back(new_history());
    return static_cast<int64_t>(states_.size()) - 1;
  }
  SequenceState<T>& state(int64_t sequence) {
    if (sequence < 0 || sequence >= static_cast<int64_t>(states_.size())) {
      throw usage_error("sequence", "one that add_sequence() returned", std::to_string(sequence));
    }
    return states_[static_cast<size_t>(sequence)];
  }
  void reset(int64_t sequence) {
    state(sequence) = full_->new_state();
    history(sequence) = new_history();
  }
  /// Forgets what came after the first `length` positions.
  void rewind(int64_t sequence, int64_t length) {
    if (length == 0) return reset(sequence);
    state(sequence).length = length;
    history(sequence).truncate(length);
  }

  std::span<const T> run(std::span<const SequenceInput> inputs, LogitRows rows,
                         const TraceSink& sink, const ValuePatch& patch, int threads) {
    for (size_t i = 0; i < inputs.size(); ++i) {
      for (size_t j = 0; j < i; ++j) {
        if (inputs[j].sequence != inputs[i].sequence) continue;
        throw usage_error("pass", "each sequence once", std::to_string(inputs[i].sequence));
      }
      check_encoder(inputs[i], state(inputs[i].sequence));
    }
    std::vector<int64_t> reaches;
    for (const SequenceInput& input : inputs) {
      reaches.push_back(history(input.sequence).length_with(input));
      renew(input.sequence, reaches.back(), threads);
    }
    const std::span<const T> out = run_pass(inputs, reaches, rows, sink, patch, threads);
    for (size_t i = 0; i < inputs.size(); ++i) {
      history(inputs[i].sequence).made_for(reaches[i]);
      history(inputs[i].sequence).append(inputs[i]);
    }
    return out;
  }

 private:
  History new_history() const {
    return {&switches_, program_.input == kNoId ? 0 : program_.spec.stack.width};
  }
  History& history(int64_t sequence) { return histories_[static_cast<size_t>(sequence)]; }

  /// Reads what came before anew, where the sequence grows past a length after which keys are
  /// turned otherwise.
  void renew(int64_t sequence, int64_t length, int threads) {
    History& own = history(sequence);
    if (!own.outgrows(length)) return;
    SequenceInput past = own.past();
    past.sequence = sequence;
    SequenceState<T> before = std::exchange(state(sequence), full_->new_state());
    try {
      run_pass({&past, 1}, {&length, 1}, LogitRows::kLast, {}, {}, threads);
    } catch (...) {
      state(sequence) = std::move(before);
      throw;
    }
    own.made_for(length);
  }

  std::span<const T> run_pass(std::span<const SequenceInput> inputs,
                              std::span<const int64_t> reaches, LogitRows rows,
                              const TraceSink& sink, const ValuePatch& patch, int threads) {
    std::vector<PassSequence<T>> pass(inputs.size());
    std::vector<std::vector<T>> rows_in(inputs.size());
    bool encodes = false;
    for (size_t i = 0; i < inputs.size(); ++i) {
      const SequenceInput& input = inputs[i];
      rows_in[i].assign(input.input.begin(), input.input.end());
      pass[i] = {.state = &state(input.sequence),
                 .tokens = input.tokens,
                 .encoder_tokens = input.encoder_tokens,
                 .token_types = input.token_types,
                 .positions = input.positions,
                 .padding = input.left_padding,
                 .encoder_padding = input.encoder_left_padding,
                 .input = rows_in[i],
                 .reach = reaches[i]};
      encodes |= !input.encoder_tokens.empty();
    }
    Executor<T>& executor = decode_ && !encodes ? *decode_ : *full_;
    return executor.run(pass, rows, sink, patch, threads);
  }

  void check_encoder(const SequenceInput& input, const SequenceState<T>& state) const {
    if (!program_.spec.encoder) {
      if (!input.encoder_tokens.empty()) {
        throw usage_error("encoder tokens", "none (the model has no encoder)", "some");
      }
    } else if (input.encoder_tokens.empty() && state.encoder_length == 0) {
      throw usage_error("encoder tokens", "some in the first pass of a sequence", "none");
    } else if (!input.encoder_tokens.empty() && state.encoder_length > 0) {
      // The decoder's cache was made with the other ones.
      throw usage_error("encoder tokens", "none after the first pass of a sequence",
                        std::to_string(input.encoder_tokens.size()))
          .hint("reset() makes the sequence new");
    }
  }

  const Program& program_;
  std::vector<int64_t> switches_;
  std::unique_ptr<Executor<T>> full_, decode_;
  std::vector<SequenceState<T>> states_;
  std::vector<History> histories_;
};

/// The last of each sequence's rows, for a block on its own (models select rows themselves).
template <typename T>
std::vector<T> last_rows(std::span<const T> rows, std::span<const SequenceInput> inputs,
                         size_t width) {
  std::vector<T> result;
  size_t end = 0;
  for (const SequenceInput& input : inputs) {
    end += input.input.size();
    const auto last = rows.subspan(end - width, width);
    result.insert(result.end(), last.begin(), last.end());
  }
  return result;
}

}  // namespace

struct Session::Impl {
  Impl(std::shared_ptr<const BoundProgram> program, const BoundWeights& weights,
       SessionOptions session_options)
      : bound(std::move(program)), options(std::move(session_options)) {
    if (options.compute == Compute::kF64 || options.compute == Compute::kF64Reference) {
      f64 = std::make_unique<Engine<double>>(*bound, weights, options);
    } else {
      f32 = std::make_unique<Engine<float>>(*bound, weights, options);
    }
  }

  template <typename Out>
  std::vector<Out> run(std::span<const SequenceInput> inputs, LogitRows rows, const TraceSink& sink,
                       const ValuePatch& patch = {}) {
    if (f64) return run_on<Out>(*f64, inputs, rows, sink, patch);
    return run_on<Out>(*f32, inputs, rows, sink, patch);
  }

  template <typename Out, typename T>
  std::vector<Out> run_on(Engine<T>& engine, std::span<const SequenceInput> inputs, LogitRows rows,
                          const TraceSink& sink, const ValuePatch& patch) {
    const std::span<const T> out = engine.run(inputs, rows, sink, patch, options.threads);
    const Value& output = bound->program().value(bound->program().output);
    if (rows == LogitRows::kLast && output.rows != Rows::kHead) {
      const auto last = last_rows(out, inputs, static_cast<size_t>(output.width));
      return {last.begin(), last.end()};
    }
    return {out.begin(), out.end()};
  }

  int64_t length(int64_t sequence) {
    return f64 ? f64->state(sequence).length : f32->state(sequence).length;
  }

  /// A long prompt in parts. Whatever goes wrong, the sequence is left as it was.
  std::vector<float> in_chunks(const SequenceInput& whole, int64_t chunk, const TraceSink& sink) {
    const int64_t before = length(whole.sequence);
    const auto total = static_cast<int64_t>(whole.tokens.size());
    try {
      for (int64_t done = 0;;) {
        // All padding goes into the first part.
        const int64_t end =
            std::min(total, done == 0 ? std::max(chunk, whole.left_padding) : done + chunk);
        SequenceInput part = done == 0 ? whole : SequenceInput{};
        part.sequence = whole.sequence;
        part.tokens.assign(whole.tokens.begin() + done, whole.tokens.begin() + end);
        std::vector<float> last = run<float>({&part, 1}, LogitRows::kLast, sink);
        if (end == total) return last;
        done = end;
      }
    } catch (...) {
      f64 ? f64->rewind(whole.sequence, before) : f32->rewind(whole.sequence, before);
      throw;
    }
  }

  std::shared_ptr<const BoundProgram> bound;
  SessionOptions options;
  std::unique_ptr<Engine<float>> f32;
  std::unique_ptr<Engine<double>> f64;
};

Session::Session(std::shared_ptr<const BoundProgram> bound, SessionOptions options) {
  if (options.chunk < 1) throw usage_error("chunk", "1 or more", std::to_string(options.chunk));
  if (options.arithmetic.type != ArithmeticType::kF64 && options.compute != Compute::kF64) {
    throw usage_error("arithmetic that a pass imitates", "a pass in double", "another one");
  }
  BoundProgram::Impl& shared = *bound->impl_;
  if (options.compute == Compute::kFast || options.compute == Compute::kF32) {
    const std::lock_guard lock(shared.packing);
    shared.weights.pack(bound->program(), options.threads);
  }
  impl_ = std::make_unique<Impl>(std::move(bound), shared.weights, std::move(options));
}
Session::~Session() = default;
Session::Session(Session&&) noexcept = default;
Session& Session::operator=(Session&&) noexcept = default;

int64_t Session::add_sequence() { return impl_->f64 ? impl_->f64->add() : impl_->f32->add(); }

void Session::reset(int64_t sequence) {
  impl_->f64 ? impl_->f64->reset(sequence) : impl_->f32->reset(sequence);
}

int64_t Session::length(int64_t sequence) const { return impl_->length(sequence); }

std::vector<float> Session::forward(std::span<const SequenceInput> inputs, const TraceSink& sink) {
  // A long prompt of one sequence goes in chunks, unless somebody looks at the values.
  const int64_t chunk = impl_->options.chunk;
  if (inputs.size() == 1 && impl_->options.sites.empty() && inputs[0].positions.empty() &&
      inputs[0].token_types.empty() && inputs[0].input.empty() &&
      can_chunk(impl_->bound->program(),
                length(inputs[0].sequence) + static_cast<int64_t>(inputs[0].tokens.size()))) {
    return impl_->in_chunks(inputs[0], chunk, sink);
  }
  return impl_->run<float>(inputs, LogitRows::kLast, sink);
}

std::vector<double> Session::forward_all(std::span<const SequenceInput> inputs,
                                         const TraceSink& sink, const ValuePatch& patch) {
  return impl_->run<double>(inputs, LogitRows::kAll, sink, patch);
}

void Session::observe(std::span<const SequenceInput> inputs, const TraceSink& sink) {
  const int threads = impl_->options.threads;
  if (impl_->f64) {
    impl_->f64->run(inputs, LogitRows::kAll, sink, {}, threads);
  } else {
    impl_->f32->run(inputs, LogitRows::kAll, sink, {}, threads);
  }
}

std::vector<SiteId> all_sites(const Program& program) {
  std::vector<SiteId> result;
  for (const NamedValue& named : program.sites) result.push_back(named.site);
  return result;
}

std::vector<TracedValue> trace(const std::shared_ptr<const BoundProgram>& bound,
                               std::span<const SequenceInput> inputs, std::vector<SiteId> sites,
                               Compute compute, int threads) {
  Session session(bound, {.compute = compute, .threads = threads, .sites = std::move(sites)});
  std::vector<SequenceInput> own(inputs.begin(), inputs.end());
  for (SequenceInput& input : own) input.sequence = session.add_sequence();
  std::vector<TracedValue> values;
  session.observe(own, [&](const TraceEvent& event) {
    Tensor copy(event.value.dtype(), event.value.shape());
    std::copy_n(event.value.data(), event.value.bytes(), copy.data<std::byte>());
    values.push_back({event.site, std::move(copy)});
  });
  return values;
}

}  // namespace mainstem
