#include "diagnose/causes/norm_rows.h"

#include <cmath>

#include "kernels/reference/arithmetic.h"

namespace mainstem::causes {
namespace {

struct Affine {
  std::span<const double> weight, bias;  // repeated over the row where they are shorter
};

void norm_group(const NormRow& row, const Affine& affine, std::span<const double> x, int64_t first,
                std::span<double> y) {
  const auto n = static_cast<double>(row.group);
  const auto at = [&](int64_t i) { return x[static_cast<size_t>(first + i)]; };
  double mean = 0;
  if (row.norm.kind == NormKind::kLayer) {
    for (int64_t i = 0; i < row.group; ++i) mean += at(i);
    mean /= n;
  }
  double variance = 0;
  for (int64_t i = 0; i < row.group; ++i) variance += (at(i) - mean) * (at(i) - mean);
  variance /= row.unbiased ? n - 1 : n;
  const double divisor = row.eps_outside ? std::sqrt(variance) + row.norm.eps
                                         : std::pow(variance + row.norm.eps, row.exponent);
  for (int64_t i = 0; i < row.group; ++i) {
    const auto channel = static_cast<size_t>(first + i);
    double value = (at(i) - mean) / divisor;
    if (row.cast == CastOrder::kBeforeWeight) value = rounded_to(row.cast_to, value);
    if (!affine.weight.empty()) {
      value *= row.norm.weight_offset + affine.weight[channel % affine.weight.size()];
    }
    if (!affine.bias.empty()) value += affine.bias[channel % affine.bias.size()];
    if (row.cast != CastOrder::kNone) value = rounded_to(row.cast_to, value);
    y[channel] = value;
  }
}

CustomParams custom_norm(std::string note, const NormRow& row) {
  return {
      .note = std::move(note),
      .apply = [row](std::span<const std::span<const double>> in, std::span<double> out, int64_t) {
        Affine affine;
        size_t next = 1;
        if (row.norm.weight) affine.weight = in[next++];
        if (row.norm.bias) affine.bias = in[next];
        for (int64_t c = 0; c < static_cast<int64_t>(out.size()); c += row.group) {
          norm_group(row, affine, in[0], c, out);
        }
      }};
}

}  // namespace

double rounded_to(DType dtype, double value) {
  const auto storage = dtype == DType::kF16 ? reference::Storage::kF16 : reference::Storage::kBF16;
  return reference::round_to(storage, static_cast<float>(value));
}

Change change_norm_rows(std::vector<ValueId> norms, std::string note,
                        std::function<void(NormRow&)> change) {
  return [norms = std::move(norms), note = std::move(note), change = std::move(change)](
             Edited& edited, Numbers) {
    for (ValueId output : norms) {
      Step& step = maker(edited.program, output);
      const auto& params = std::get<NormParams>(step.params);
      NormRow row{.norm = params.norm, .group = params.group};
      change(row);
      step.op = Op::kCustom;  // its weights stay
      step.params = custom_norm(note, row);
      step.formula = note;
    }
  };
}

}  // namespace mainstem::causes
