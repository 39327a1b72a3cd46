#include "steps.h"

#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <cstring>

#include "arrays.h"
#include "mainstem/error.h"

namespace mainstem::python {
namespace {

const SiteId& first_name(const Program& program, ValueId value) {
  const auto found = std::find_if(program.sites.begin(), program.sites.end(),
                                  [&](const NamedValue& each) { return each.value == value; });
  if (found == program.sites.end()) throw internal_error("a value without a name");
  return found->site;
}

std::vector<int64_t> left_padded(const std::vector<int64_t>& sequence, size_t length) {
  std::vector<int64_t> ids(length - sequence.size());
  ids.insert(ids.end(), sequence.begin(), sequence.end());
  return ids;
}

size_t longest(const std::vector<std::vector<int64_t>>& sequences) {
  size_t length = 0;
  for (const auto& each : sequences) length = std::max(length, each.size());
  return length;
}

}  // namespace

Compute compute_named(const std::string& text) {
  if (text == "fast") return Compute::kFast;
  if (text == "f32") return Compute::kF32;
  if (text == "f64") return Compute::kF64;
  throw usage_error("compute", "fast, f32 or f64", "'" + text + "'");
}

nb::list site_table(const Program& program) {
  nb::list table;
  for (const NamedValue& named : program.sites) {
    std::vector<std::string> letters;
    std::vector<int64_t> sizes;
    for (const Dim& dim : program.value(named.value).dims) {
      letters.emplace_back(1, dim.letter);
      sizes.push_back(dim.size);
    }
    table.append(nb::make_tuple(to_string(named.site), letters, sizes, program.formula(named.value),
                                to_string(first_name(program, named.value))));
  }
  return table;
}

nb::list traced(const std::shared_ptr<const BoundProgram>& bound,
                const std::vector<SequenceInput>& inputs, const std::vector<std::string>& sites,
                const PassOptions& options) {
  SessionOptions session_options{.compute = options.compute, .threads = options.threads};
  for (const NamedValue& named : bound->program().sites) {
    if (std::find(sites.begin(), sites.end(), to_string(named.site)) != sites.end()) {
      session_options.sites.push_back(named.site);
    }
  }
  const auto values = interruptible([&](const CancelFlag& cancel) {
    session_options.cancel = &cancel;
    Session session(bound, session_options);
    std::vector<SequenceInput> numbered = inputs;
    for (SequenceInput& input : numbered) input.sequence = session.add_sequence();
    std::vector<TracedValue> kept;
    session.observe(numbered, [&](const TraceEvent& event) {
      Tensor copy(event.value.dtype(), event.value.shape());
      std::memcpy(copy.data<std::byte>(), event.value.data(),
                  static_cast<size_t>(event.value.bytes()));
      kept.push_back({event.site, std::move(copy)});
    });
    return kept;
  });
  nb::list result;
  for (const TracedValue& each : values) {
    result.append(nb::make_tuple(to_string(each.site), to_numpy(each.value)));
  }
  return result;
}

std::vector<SequenceInput> padded_inputs(const std::vector<std::vector<int64_t>>& sequences,
                                         const std::vector<std::vector<int64_t>>& encoder) {
  const size_t tokens = longest(sequences), encoder_tokens = longest(encoder);
  std::vector<SequenceInput> inputs;
  for (size_t b = 0; b < sequences.size(); ++b) {
    SequenceInput& input = inputs.emplace_back();
    input.tokens = left_padded(sequences[b], tokens);
    input.left_padding = static_cast<int64_t>(tokens - sequences[b].size());
    if (encoder.empty()) continue;
    input.encoder_tokens = left_padded(encoder.at(b), encoder_tokens);
    input.encoder_left_padding = static_cast<int64_t>(encoder_tokens - encoder[b].size());
  }
  return inputs;
}

std::string output_site(const Program& program) {
  ValueId value = program.output;
  // Without a head the result is chosen rows of the last stream value.
  const Step& made = program.step(program.value(value).producer);
  if (made.op == Op::kSelectRows) value = made.inputs[0];
  return to_string(first_name(program, value));
}

}  // namespace mainstem::python
