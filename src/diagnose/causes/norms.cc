// Norms that compute something else than their spec says.

#include <fmt/format.h>

#include <algorithm>

#include "diagnose/causes/norm_rows.h"

namespace mainstem::causes {
namespace {

/// What a mistake of norms may concern: all of the stream's at once, in and outside of the blocks
/// (code shares one class), each of them, those of q and k. The more usual of two that are the same
/// comes first.
std::vector<NormAt> groups(const Place& place) {
  std::vector<NormAt> norms = place.norms();
  std::vector<NormAt> stream;
  for (const NormAt& norm : norms) {
    if (!norm.of_heads) stream.push_back(norm);
  }
  const bool several = place.layer() >= 0 && stream.size() > 1;
  std::vector<NormAt> result = std::move(norms);
  if (!stream.empty()) {
    result.insert(several ? result.begin() : result.end(),
                  {.label = "the norms of the stream", .outputs = joined(stream)});
  }
  return result;
}

const NormSpec& spec_of(const Place& place, const NormAt& norm) {
  return std::get<NormParams>(maker(place.program(), norm.outputs[0]).params).norm;
}

/// Changes the NormParams of the norms.
Change change_specs(std::vector<ValueId> norms, std::function<void(NormSpec&, Numbers)> change) {
  return [norms = std::move(norms), change = std::move(change)](Edited& edited, Numbers numbers) {
    for (ValueId output : norms) {
      Step& step = maker(edited.program, output);
      NormSpec& norm = std::get<NormParams>(step.params).norm;
      change(norm, numbers);
      if (!norm.bias) step.weights[1] = kNoId;
      if (!norm.weight) step.weights[0] = kNoId;
    }
  };
}

std::string offset_text(double offset) {
  return offset == 0  ? "w"
         : offset < 0 ? fmt::format("w − {:g}", -offset)
                      : fmt::format("{:g} + w", offset);
}

/// (var + eps)² where its root belongs.
void norm_by_square(const Place& place, Forms& forms) {
  for (const NormAt& norm : groups(place)) {
    forms.add(
        {.yours = "divides by (var + eps)² in " + norm.label,
         .reference = "divides by √(var + eps)",
         .usual_place = "the exponent in a hand-written norm",
         .fix = "Divide by the root of var + eps."},
        place.shown(norm.outputs),
        change_norm_rows(norm.outputs, "x / (var + eps)²", [](NormRow& row) { row.exponent = 2; }));
  }
}

}  // namespace

void norm_eps(const Place& place, Forms& forms) {
  for (const NormAt& norm : groups(place)) {
    const double right = spec_of(place, norm).eps;
    forms.add({.yours = "another eps in " + norm.label,
               .reference = "eps " + number(right),
               .usual_place = "the norm's constructor: a class default instead of the config's eps",
               .fix = fmt::format("Read eps from the model's config: {} in {}.", number(right),
                                  norm.label)},
              place.shown(norm.outputs),
              change_specs(norm.outputs, [](NormSpec& spec, Numbers n) { spec.eps = n[0]; }),
              {{.name = "eps",
                .low = 1e-12,
                .high = 1e-1,
                .logarithmic = true,
                .usual = without({0, 1e-6, 1e-5, 1e-12, 1e-8, 1e-7, 1e-3}, right)}});
  }
}

void norm_eps_outside_root(const Place& place, Forms& forms) {
  for (const NormAt& norm : groups(place)) {
    if (spec_of(place, norm).eps == 0) continue;
    forms.add({.yours = "divides by √var + eps in " + norm.label,
               .reference = "divides by √(var + eps)",
               .usual_place = "a hand-written norm that calls std() and adds eps to it",
               .fix = "Add eps to the variance, under the root."},
              place.shown(norm.outputs),
              change_norm_rows(norm.outputs, "x / (√var + eps)",
                               [](NormRow& row) { row.eps_outside = true; }));
  }
}

void norm_unbiased_variance(const Place& place, Forms& forms) {
  for (bool outside : {false, true}) {
    for (const NormAt& norm : groups(place)) {
      const NormParams& params =
          std::get<NormParams>(maker(place.program(), norm.outputs[0]).params);
      if (params.norm.kind != NormKind::kLayer || params.group < 2) continue;
      if (outside && params.norm.eps == 0) continue;
      forms.add({.yours = fmt::format("variance over n − 1{} in {}",
                                      outside ? ", eps added to its root," : "", norm.label),
                 .reference = "variance over n",
                 .usual_place = "var() or std() with the framework's default, which is unbiased",
                 .fix = "Divide the sum of squares by n (unbiased=False)."},
                place.shown(norm.outputs),
                change_norm_rows(norm.outputs, "variance over n − 1", [outside](NormRow& row) {
                  row.unbiased = true;
                  row.eps_outside = outside;
                }));
    }
  }
}

void norm_kind(const Place& place, Forms& forms) {
  for (const NormAt& norm : groups(place)) {
    const bool layer = spec_of(place, norm).kind == NormKind::kLayer;
    forms.add({.yours = (layer ? "RMSNorm as " : "LayerNorm as ") + norm.label,
               .reference = layer ? "LayerNorm: the mean is subtracted" : "RMSNorm: no mean",
               .usual_place = "the class that the block's constructor picks for its norms",
               .fix = layer ? "Subtract the mean before dividing (LayerNorm)."
                            : "Do not subtract the mean (RMSNorm)."},
              place.shown(norm.outputs),
              change_specs(norm.outputs, [layer](NormSpec& spec, Numbers) {
                spec.kind = layer ? NormKind::kRms : NormKind::kLayer;
              }));
  }
  norm_by_square(place, forms);
}

void norm_weight_offset(const Place& place, Forms& forms) {
  for (double step : {-1.0, 1.0}) {
    for (const NormAt& norm : groups(place)) {
      const NormSpec& spec = spec_of(place, norm);
      if (!spec.weight) continue;
      // 1 + w is confused with w; a file that holds 1 + w already gets 1 added once more.
      const double wrong = spec.weight_offset + (spec.weight_offset == 0 ? -step : step);
      forms.add({.yours = fmt::format("x̂ · ({}) in {}", offset_text(wrong), norm.label),
                 .reference = fmt::format("x̂ · ({})", offset_text(spec.weight_offset)),
                 .usual_place = "the norm's last line, or the converter that folds 1 into the file",
                 .fix = fmt::format("Multiply by {}, w as the file holds it.",
                                    offset_text(spec.weight_offset))},
                place.shown(norm.outputs),
                change_specs(norm.outputs, [wrong](NormSpec& changed, Numbers) {
                  changed.weight_offset = wrong;
                }));
    }
  }
}

void norm_bias_missing(const Place& place, Forms& forms) {
  for (const NormAt& norm : groups(place)) {
    if (!spec_of(place, norm).bias) continue;
    forms.add({.yours = "no bias in " + norm.label,
               .reference = "x̂ · w + b",
               .usual_place = "the norm's constructor (bias=False) or a name the loader skips",
               .fix = "Load and add the bias of " + norm.label + "."},
              place.shown(norm.outputs),
              change_specs(norm.outputs, [](NormSpec& spec, Numbers) { spec.bias = false; }));
  }
}

void norm_missing(const Place& place, Forms& forms) {
  for (const NormAt& norm : groups(place)) {
    if (norm.of_heads) continue;                                    // qk_norm.missing
    if (place.find(Site::kFinalNorm) == norm.outputs[0]) continue;  // head.final_norm
    forms.add({.yours = "nothing in the place of " + norm.label,
               .reference = "a norm",
               .usual_place = "the block's forward: the norm is built but never called",
               .fix = "Apply " + norm.label + "."},
              place.shown(norm.outputs), [norms = norm.outputs](Edited& edited, Numbers) {
                for (ValueId output : norms) {
                  replace_by_custom(edited.program, output, pass_through("x, no norm"));
                }
              });
  }
}

void norm_cast_order(const Place& place, Forms& forms) {
  for (const DType dtype : {DType::kBF16, DType::kF16}) {
    for (const CastOrder order : {CastOrder::kBeforeWeight, CastOrder::kAfterWeight}) {
      for (const NormAt& norm : groups(place)) {
        if (!spec_of(place, norm).weight) continue;
        const bool before = order == CastOrder::kBeforeWeight;
        forms.add({.yours = fmt::format("{} in {}, in {}", before ? "round(x̂) · w" : "round(x̂ · w)",
                                        norm.label, name(dtype)),
                   .reference = before ? "round(x̂ · w)" : "round(x̂) · w",
                   .usual_place = "the norm's last line: where it casts back to the half type",
                   .fix = before ? "Multiply by the weight in float32, then cast."
                                 : "Cast to the half type first, then multiply by the weight.",
                   .only_rounds = true},
                  place.shown(norm.outputs),
                  change_norm_rows(norm.outputs, before ? "round(x̂) · w" : "round(x̂ · w)",
                                   [order, dtype](NormRow& row) {
                                     row.cast = order;
                                     row.cast_to = dtype;
                                   }));
      }
    }
  }
}

}  // namespace mainstem::causes
