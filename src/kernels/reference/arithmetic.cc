#include "kernels/reference/arithmetic.h"

#include <span>
#include <string>

#include "kernels/reference/reference.h"
#include "mainstem/error.h"

namespace mainstem::reference {
namespace {

// Sources. PyTorch and transformers: modeling_llama.py, modeling_gemma.py, activations.py of
// transformers 5.24 and the kernels of PyTorch 2.13, seen in traces of both (tests/generators/
// make_arithmetic.py). Flash attention: doi:10.48550/arXiv.2205.14135, algorithm 1, whose weights
// go into the second product in 16 bits. Flax computes a layer norm's variance in one pass
// (LayerNorm.use_fast_variance). ggml: vec_dot_type of each weight type, quantize_row_q8_0 and
// quantize_row_q8_K, the GELU tables, ggml_rope_cache_init and the float16 sums of
// ggml_compute_forward_flash_attn_ext.

constexpr ArithmeticRules kF32Rules[] = {
    {.description = "PyTorch in float32: one chain per sum",
     .norm = NormForm::kCastFirst,
     .rotary = StepForm::kEach,
     .scores = ScoreForm::kEach},
    {.description = "fused kernels in float32: sixteen lanes per sum, flash attention",
     .order = SumOrder::kLanes,
     .pattern = PatternForm::kUnnormalised,
     .add = AddForm::kOnce},
    {.description = "separate operations in float32: sums from the end, queries scaled first",
     .order = SumOrder::kBackward,
     .norm = NormForm::kFolded,
     .scores = ScoreForm::kQueryFirst,
     .pattern = PatternForm::kReciprocal,
     .rough_curves = true,
     .activation = StepForm::kEach,
     .add = AddForm::kReversed},
    {.description = "blocked float32 products, variance in one pass, iterated angles",
     .order = SumOrder::kBlocks,
     .store_before_bias = true,
     .norm = NormForm::kFolded,
     .one_pass_variance = true,
     .angles = AngleForm::kIterated,
     .pattern = PatternForm::kReciprocal},
    {.description = "float32 products split in two, iterated angles",
     .order = SumOrder::kHalves,
     .store_before_bias = true,
     .angles = AngleForm::kIterated,
     .scores = ScoreForm::kQueryFirst,
     .activation = StepForm::kEach},
    {.description = "vectorised operations in float32: sixteen lanes per sum, vector libraries",
     .order = SumOrder::kLanes,
     .norm = NormForm::kCastFirst,
     .scores = ScoreForm::kEach,
     .pattern = PatternForm::kReciprocal,
     .rough_curves = true},
    {.description = "flash attention and blocked products in float32, vector libraries",
     .order = SumOrder::kBlocks,
     .angles = AngleForm::kIterated,
     .pattern = PatternForm::kUnnormalised,
     .rough_curves = true,
     .add = AddForm::kReversed},
};

constexpr ArithmeticRules half_rules(Storage storage, int variant) {
  switch (variant) {
    case 0:
      return {
          .description = "transformers, eager: each operation stored, norms cast before weights",
          .storage = storage,
          .norm = NormForm::kCastFirst,
          .rotary = StepForm::kEach,
          .store_angles = true,
          .scores = ScoreForm::kEach};
    case 1:
      return {.description = "fused kernels: float32 inside a step, flash attention",
              .storage = storage,
              .order = SumOrder::kLanes,
              .pattern = PatternForm::kUnnormalised,
              .add = AddForm::kOnce};
    case 2:
      return {.description =
                  "transformers, formulas in Python: activations, caps and factors stored at each "
                  "operation, norms cast after weights, queries scaled first",
              .storage = storage,
              .order = SumOrder::kBackward,
              .rotary = StepForm::kEach,
              .scores = ScoreForm::kQueryFirst,
              .activation = StepForm::kEach,
              .soft_cap = StepForm::kEach,
              .store_factor = true,
              .add = AddForm::kReversed};
    case 3:
      return {.description =
                  "products split in two halves that are stored, bias added afterwards, angles "
                  "stored, rotation in float32",
              .storage = storage,
              .order = SumOrder::kHalves,
              .store_halves = true,
              .store_before_bias = true,
              .norm = NormForm::kFolded,
              .store_angles = true,
              .scores = ScoreForm::kEach,
              .pattern = PatternForm::kReciprocal,
              .activation = StepForm::kEach};
    case 4:
      return {
          .description = "eager attention with blocked sums, iterated angles, variance in one pass",
          .storage = storage,
          .order = SumOrder::kBlocks,
          .norm = NormForm::kFolded,
          .one_pass_variance = true,
          .rotary = StepForm::kEach,
          .angles = AngleForm::kIterated,
          .scores = ScoreForm::kEach,
          .soft_cap = StepForm::kEach,
          .add = AddForm::kOnce};
    case 5:
      return {
          .description =
              "transformers, eager, the whole module cast after it was made: rotary frequencies "
              "of 16 bits",
          .storage = storage,
          .order = SumOrder::kLanes,
          .norm = NormForm::kCastFirst,
          .rotary = StepForm::kEach,
          .store_angles = true,
          .angles = AngleForm::kStored,
          .scores = ScoreForm::kEach,
          .rough_curves = true};
    default:
      return {.description = "flash attention, blocked sums, stored angles, vector libraries",
              .storage = storage,
              .order = SumOrder::kBlocks,
              .store_angles = true,
              .pattern = PatternForm::kUnnormalised,
              .rough_curves = true,
              .add = AddForm::kReversed};
  }
}

template <Storage storage>
constexpr ArithmeticRules kHalfRules[] = {
    half_rules(storage, 0), half_rules(storage, 1), half_rules(storage, 2), half_rules(storage, 3),
    half_rules(storage, 4), half_rules(storage, 5), half_rules(storage, 6)};

constexpr ArithmeticRules kQ8ActRules[] = {
    {.description = "llama.cpp: inputs of quantised products in 8 bits, float16 cache and patterns",
     .order = SumOrder::kLanes,
     .angles = AngleForm::kIterated,
     .pattern = PatternForm::kReciprocal,
     .rough_curves = true,
     .round_inputs = true,
     .f16_block_scale = true,
     .f16_cache = true,
     .f16_attention = true,
     .f16_curves = true},
    {.description = "llama.cpp with flash attention: mixtures summed up in float16",
     .order = SumOrder::kForward,
     .angles = AngleForm::kIterated,
     .pattern = PatternForm::kUnnormalised,
     .round_inputs = true,
     .f16_block_scale = true,
     .f16_cache = true,
     .f16_attention = true,
     .f16_mix = true,
     .f16_curves = true},
    {.description = "llama.cpp with a BLAS library: inputs of products stay in float32; queries "
                    "scaled before they are float16 (its Gemma and Phi)",
     .order = SumOrder::kBlocks,
     .angles = AngleForm::kIterated,
     .scores = ScoreForm::kQueryFirst,
     .f16_cache = true,
     .f16_attention = true,
     .f16_curves = true},
    {.description = "8-bit inputs with float32 scales, float32 attention (mainstem --compute fast)",
     .order = SumOrder::kBlocks,
     .round_inputs = true},
};

std::span<const ArithmeticRules> variants(ArithmeticType type) {
  switch (type) {
    case ArithmeticType::kF64:
      return {};
    case ArithmeticType::kF32:
      return kF32Rules;
    case ArithmeticType::kBF16:
      return kHalfRules<Storage::kBF16>;
    case ArithmeticType::kF16:
      return kHalfRules<Storage::kF16>;
    case ArithmeticType::kQ8Act:
      return kQ8ActRules;
  }
  return {};
}

}  // namespace

const ArithmeticRules* rules_of(const Arithmetic& arithmetic) {
  const int count = arithmetic_variants(arithmetic.type);
  if (arithmetic.variant < 0 || arithmetic.variant >= count) {
    throw usage_error("variant of an arithmetic", "0 to " + std::to_string(count - 1),
                      std::to_string(arithmetic.variant));
  }
  if (arithmetic.type == ArithmeticType::kF64) return nullptr;
  return &variants(arithmetic.type)[static_cast<size_t>(arithmetic.variant)];
}

float curve_value(const ArithmeticRules& rules, float x, float y) {
  if (!rules.rough_curves || x == 0 || !std::isfinite(y)) return y;
  // Up or down, as the argument's bits happen to say.
  const bool up = (std::bit_cast<uint32_t>(x) * 2654435761u >> 31) != 0;
  return std::nextafter(y, up ? INFINITY : -INFINITY);
}

/// Roughly: Abramowitz and Stegun, Handbook of Mathematical Functions, 7.1.26, which is off by
/// 1.5e-7 at most (PyTorch's vectors take it).
float Rounded::erf(float x) const {
  if (!rules_.rough_curves) return std::erf(x);
  const float t = 1 / (1 + 0.3275911f * std::fabs(x));
  const float p = ((((1.061405429f * t - 1.453152027f) * t + 1.421413741f) * t - 0.284496736f) * t +
                   0.254829592f) *
                  t;
  return std::copysign(1 - p * exp(-x * x), x);
}

double Exact::activate(Activation kind, double x) const { return reference::activate(kind, x); }

// The formulas as transformers' activations.py writes them, one operation after the other.
float Rounded::activate(Activation kind, float x) const {
  const bool each = rules_.activation == StepForm::kEach;
  const auto r = [&](float value) { return maybe_store(each, value); };
  // No program has a table of the erf form: where llama.cpp takes its one table, that is a mistake.
  const bool has_table = kind == Activation::kGeluTanh || kind == Activation::kQuickGelu;
  const bool table = rules_.f16_curves && has_table;
  if (table) x = round_to(Storage::kF16, x);
  const auto sigmoid = [&](float v) { return 1 / (1 + exp(-v)); };
  float y = x;
  switch (kind) {
    case Activation::kRelu:
      y = x > 0 ? x : x * 0.0f;
      break;
    case Activation::kReluSquared:
      y = x > 0 ? x * x : x * 0.0f;
      break;
    case Activation::kGeluErf:
      y = r(x * 0.5f) * r(1 + r(erf(r(rules_.rough_curves ? x * static_cast<float>(M_SQRT1_2)
                                                          : x / std::sqrt(2.0f)))));
      break;
    case Activation::kGeluTanh: {
      const float cube = r(0.044715f * r(x * x * x));
      const float inner = r(static_cast<float>(std::sqrt(2.0 / M_PI)) * r(x + cube));
      y = r(0.5f * x) * r(1 + r(tanh(inner)));
      break;
    }
    case Activation::kSilu:
      y = each ? x * r(sigmoid(x)) : x / (1 + exp(-x));
      break;
    case Activation::kQuickGelu:
      y = x * r(sigmoid(r(1.702f * x)));
      break;
  }
  return table ? round_to(Storage::kF16, y) : store(y);
}

float Rounded::score(float product, const Exact::ScoreParams& params, double position) const {
  const bool each = rules_.scores != ScoreForm::kWhole;
  float score = maybe_store(each, product);
  if (rules_.scores != ScoreForm::kQueryFirst) {
    score = maybe_store(each, score * narrow(params.scale));
  }
  if (params.soft_cap != 0) score = capped(each, score, narrow(params.soft_cap));
  if (params.slope != 0) {
    const float bias = maybe_store(each, narrow(params.slope) * narrow(position));
    score = maybe_store(each, score + bias);
  }
  return score;
}

float Rounded::pattern(float exponential, float total) const {
  switch (rules_.pattern) {
    case PatternForm::kDivided:
      return store(exponential / total);
    case PatternForm::kReciprocal:
      return store(exponential * (1 / total));
    case PatternForm::kUnnormalised:
      return exponential / total;
  }
  return exponential;
}

}  // namespace mainstem::reference

namespace mainstem {

std::string_view name(ArithmeticType type) {
  switch (type) {
    case ArithmeticType::kF64:
      return "f64";
    case ArithmeticType::kF32:
      return "f32";
    case ArithmeticType::kBF16:
      return "bf16";
    case ArithmeticType::kF16:
      return "f16";
    case ArithmeticType::kQ8Act:
      return "q8act";
  }
  return {};
}

ArithmeticType parse_arithmetic(std::string_view text) {
  for (const ArithmeticType type :
       {ArithmeticType::kF64, ArithmeticType::kF32, ArithmeticType::kBF16, ArithmeticType::kF16,
        ArithmeticType::kQ8Act}) {
    if (text == name(type)) return type;
  }
  throw usage_error("dtype", "f64, f32, bf16, f16 or q8act", "'" + std::string(text) + "'");
}

int arithmetic_variants(ArithmeticType type) {
  if (type == ArithmeticType::kF64) return 1;
  return static_cast<int>(reference::variants(type).size());
}

std::string_view describe(const Arithmetic& arithmetic) {
  const reference::ArithmeticRules* rules = reference::rules_of(arithmetic);
  return rules != nullptr ? rules->description : "double";
}

}  // namespace mainstem
