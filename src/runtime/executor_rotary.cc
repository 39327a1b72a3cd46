// The angles of a pass's rotary steps.

#include <algorithm>
#include <cmath>

#include "mainstem/error.h"
#include "runtime/executor_pass.h"
#include "runtime/rotary_table.h"

namespace mainstem {

template <typename T>
void Executor<T>::Pass::prepare_rotary() {
  for (const Step& each : program().steps) {
    if (each.op != Op::kRotary) continue;
    const auto& params = std::get<RotaryParams>(each.params);
    const RotarySpec& spec = params.rotary;
    const Rows rows = program().value(each.output).rows;
    const auto known = [&](const RotaryAngles& a) { return a.serves(params, rows); };
    if (std::any_of(angles_.begin(), angles_.end(), known)) continue;

    RotaryAngles angles;
    angles.spec = spec;
    angles.rows = rows;
    angles.position = params.position;
    angles.offset = params.offset;
    angles.restarts = params.restarts;
    const size_t values = rows_.positions(rows).size() * static_cast<size_t>(spec.width / 2);
    angles.cosine.reserve(values);
    angles.sine.reserve(values);
    RotaryFrequencies f;
    for (size_t i = 0; i < sequences_.size(); ++i) {
      if (i == 0 || goes_by_length(spec)) f = rotary_frequencies(spec, rows_.longest(rows, i));
      add_angles(angles, f, i);
    }
    angles_.push_back(std::move(angles));
  }
  if constexpr (std::is_same_v<T, float>) {
    for (RotaryAngles& angles : angles_) {
      angles.table = {.cosine = angles.cosine.data(),
                      .sine = angles.sine.data(),
                      .width = angles.spec.width,
                      .interleaved = angles.spec.pairing == RotaryPairing::kInterleaved};
    }
  }
}

/// Of the rows of sequence i.
template <typename T>
void Executor<T>::Pass::add_angles(RotaryAngles& angles, const RotaryFrequencies& f,
                                   size_t i) const {
  const Rows rows = angles.rows;
  std::vector<int64_t> positions = rows_.positions(rows, i, angles.position);
  for (int64_t& position : positions) position = angles.restarts.place(position) + angles.offset;
  if (const reference::ArithmeticRules* rules = executor_.options_.rules) {
    return round_angles(*rules, f, positions, angles);
  }
  for (const int64_t position : positions) {
    for (const double frequency : f.frequency) {
      const double angle = static_cast<double>(position) * frequency;
      angles.cosine.push_back(static_cast<T>(std::cos(angle) * f.attention_factor));
      angles.sine.push_back(static_cast<T>(std::sin(angle) * f.attention_factor));
    }
  }
}

/// Angles as an implementation in float32 finds them: the error of a frequency grows with the
/// position.
template <typename T>
void Executor<T>::Pass::round_angles(const reference::ArithmeticRules& rules,
                                     const RotaryFrequencies& exact,
                                     std::span<const int64_t> positions,
                                     RotaryAngles& angles) const {
  const RotarySpec& spec = angles.spec;
  const size_t half = exact.frequency.size();
  const auto store = [&](float x) {
    return static_cast<T>(rules.store_angles ? round_to(rules.storage, x) : x);
  };
  std::vector<float> frequency(exact.frequency.begin(), exact.frequency.end());
  const double exponent = -2.0 / static_cast<double>(spec.width);
  const auto step = static_cast<float>(std::pow(spec.base, exponent));
  float iterated = 1;
  for (size_t j = 0; j < half; ++j, iterated *= step) {
    // What scaling makes of the frequency.
    const double plain = std::pow(spec.base, exponent * static_cast<double>(j));
    const auto scaling = static_cast<float>(exact.frequency[j] / plain);
    if (rules.angles == reference::AngleForm::kIterated) {
      frequency[j] = iterated * scaling;
    } else {
      const auto power = static_cast<float>(2 * j) / static_cast<float>(spec.width);
      const auto raised = static_cast<float>(std::pow(spec.base, static_cast<double>(power)));
      frequency[j] = 1 / raised * scaling;
    }
  }
  if (rules.angles == reference::AngleForm::kStored) {
    for (float& f : frequency) f = round_to(rules.storage, f);
  }
  const auto factor = static_cast<float>(exact.attention_factor);
  for (const int64_t position : positions) {
    for (const float each : frequency) {
      const float angle = static_cast<float>(position) * each;
      angles.cosine.push_back(store(curve_value(rules, angle, std::cos(angle)) * factor));
      angles.sine.push_back(store(curve_value(rules, angle, std::sin(angle)) * factor));
    }
  }
}

template <typename T>
auto Executor<T>::Pass::angles(const RotaryParams& params, Rows rows) const -> const RotaryAngles& {
  for (const RotaryAngles& angles : angles_) {
    if (angles.serves(params, rows)) return angles;
  }
  throw internal_error("rotary angles were not prepared");
}

template class Executor<float>::Pass;
template class Executor<double>::Pass;

}  // namespace mainstem
