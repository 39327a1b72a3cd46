#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "mainstem/activation.h"

// What a block and a model are, in enums and numbers only. Families are read into these; nothing
// below this line knows a family's name. Letters: B batch, T query tokens, S key tokens, D width,
// H query heads, K key/value heads, E head width, F MLP hidden width, V vocabulary, L layers.

namespace mainstem {

enum class NormKind : uint8_t {
  kLayer,  ///< (x - mean) / sqrt(var + eps), biased variance (Ba et al., arXiv:1607.06450)
  kRms,    ///< x / sqrt(mean(x^2) + eps) (Zhang & Sennrich, arXiv:1910.07467)
};

struct NormSpec {
  NormKind kind = NormKind::kRms;
  double eps = 1e-5;
  double weight_offset = 0;  ///< the weight used is offset + w (Gemma: 1)
  bool weight = true;
  bool bias = false;
  bool operator==(const NormSpec&) const = default;
};

/// Where the norms of a sub-layer stand.
enum class NormPlacement : uint8_t {
  kPre,         ///< x + f(norm(x))
  kPost,        ///< norm(x + f(x))
  kSandwich,    ///< x + norm(f(norm(x)))
  kOutputOnly,  ///< x + norm(f(x))
};

/// How the two sub-layers share the stream.
enum class ResidualForm : uint8_t {
  kSequential,          ///< the MLP reads the stream after attention
  kParallel,            ///< both read the block's input, each through its own norm
  kParallelSharedNorm,  ///< both read one norm of the block's input
};

enum class RotaryPairing : uint8_t {
  kHalfSplit,    ///< channel j turns with j + width/2
  kInterleaved,  ///< channel 2j turns with 2j + 1
};

enum class RotaryScalingKind : uint8_t {
  kNone,
  kLinear,    ///< frequency / factor
  kDynamic,   ///< the base grows with the longest position seen
  kYarn,      ///< Peng et al., arXiv:2309.00071
  kLlama3,    ///< by wavelength, between two bounds
  kLongRope,  ///< one divisor per pair, a short and a long list
  kDivisors,  ///< one divisor per pair (GGUF's rope_freqs)
};

struct RotaryScaling {
  RotaryScalingKind kind = RotaryScalingKind::kNone;
  double factor = 1;
  int64_t original_context = 0;
  double low_freq_factor = 1, high_freq_factor = 4;   ///< llama3
  double beta_fast = 32, beta_slow = 1;               ///< yarn
  bool truncate = true;                               ///< yarn: round the ramp's ends
  std::optional<double> attention_factor;             ///< yarn, longrope: given, else derived
  std::optional<double> mscale, mscale_all_dim;       ///< yarn
  std::vector<double> short_divisors, long_divisors;  ///< longrope; kDivisors uses the first
  bool operator==(const RotaryScaling&) const = default;
};

/// Rotary positions (Su et al., arXiv:2104.09864): pair j turns by position * base^(-2j/width).
struct RotarySpec {
  RotaryPairing pairing = RotaryPairing::kHalfSplit;
  int64_t width = 0;  ///< channels of each head that turn, from channel 0; even, at most E
  double base = 10000;
  RotaryScaling scaling;
  bool operator==(const RotarySpec&) const = default;
};

enum class QkNormScope : uint8_t {
  kPerHead,  ///< over each head's E channels
  kWhole,    ///< over the whole projection, before the head split
};

struct QkNormSpec {
  QkNormScope scope = QkNormScope::kPerHead;
  NormSpec norm;
  bool weight_per_head = false;  ///< kPerHead only: weights [H,E] and [K,E] instead of [E]
  bool after_rotary = false;
  bool operator==(const QkNormSpec&) const = default;
};

enum class MaskKind : uint8_t {
  kCausal,  ///< keys up to the row itself
  kFull,    ///< every key
  kWindow,  ///< the row itself and the window - 1 keys before it
};

struct AttentionSpec {
  int64_t heads = 0;       ///< H
  int64_t kv_heads = 0;    ///< K, divides H; query head h reads kv head h / (H/K)
  int64_t head_width = 0;  ///< E
  bool q_bias = false, k_bias = false, v_bias = false, output_bias = false;
  bool output_projection = true;  ///< without one, H*E must be D
  std::optional<QkNormSpec> qk_norm;
  std::optional<RotarySpec> rotary;
  std::vector<double> alibi_slopes;  ///< one per query head, or empty (Press et al., 2108.12409)
  MaskKind mask = MaskKind::kCausal;
  int64_t window = 0;      ///< kWindow only
  double score_scale = 0;  ///< multiplies q·k; E^-0.5 in nearly every family
  double soft_cap = 0;     ///< 0: none; else cap * tanh(score / cap), before the mask
  bool operator==(const AttentionSpec&) const = default;
};

struct MlpSpec {
  int64_t hidden = 0;  ///< F
  bool gated = true;   ///< act(gate) * value, two up projections (Shazeer, arXiv:2002.05202)
  Activation activation = Activation::kSilu;
  bool combined = false;  ///< gated: gate and value lie in one matrix [2F, D], gate rows first
  bool up_bias = false, down_bias = false;
  bool operator==(const MlpSpec&) const = default;
};

struct BlockSpec {
  int64_t width = 0;  ///< D
  NormSpec norm;
  NormPlacement placement = NormPlacement::kPre;
  ResidualForm residual = ResidualForm::kSequential;
  double residual_multiplier = 1;  ///< on what is added to the stream
  AttentionSpec attention;
  std::optional<AttentionSpec> cross_attention;
  MlpSpec mlp;
  bool operator==(const BlockSpec&) const = default;
};

enum class PositionKind : uint8_t {
  kNone,
  kLearned,                ///< table rows position + offset
  kSinusoidalInterleaved,  ///< sin at 2i, cos at 2i+1 (Vaswani et al., arXiv:1706.03762 §3.5)
  kSinusoidalHalves,       ///< all sines in the first half, all cosines in the second
};

/// Embedding, blocks and last norm: a decoder-only or encoder-only model has one stack.
struct StackSpec {
  int64_t width = 0;        ///< D
  int64_t embed_width = 0;  ///< of the token table; other than D means a projection follows
  double embed_scale = 1;
  PositionKind positions = PositionKind::kNone;
  int64_t position_rows = 0;    ///< learned: rows of the table
  int64_t position_offset = 0;  ///< learned: added to the position (OPT: 2)
  int64_t token_types = 0;      ///< rows of the token type table, 0 for none
  std::optional<NormSpec> embed_norm;
  std::vector<BlockSpec> blocks;
  std::optional<NormSpec> final_norm;
  bool operator==(const StackSpec&) const = default;
};

enum class HeadKind : uint8_t {
  kNone,
  kLinear,          ///< one matrix [V, D]
  kMaskedLanguage,  ///< dense, activation, norm, then the matrix (BERT)
};

struct HeadSpec {
  HeadKind kind = HeadKind::kLinear;
  bool tied = false;  ///< the matrix is the (decoder's) token table
  bool bias = false;
  int64_t projection_width = 0;  ///< of a projection out of the stream before the matrix, or 0
  Activation activation = Activation::kGeluErf;  ///< kMaskedLanguage
  NormSpec norm;                                 ///< kMaskedLanguage
  double logit_scale = 1;
  double logit_cap = 0;  ///< 0: none
  /// Files hold a dense layer [D,D] with bias over the first token's row (BERT): counted, not run.
  bool pooler = false;
  bool operator==(const HeadSpec&) const = default;
};

struct ModelSpec {
  int64_t vocab_size = 0;      ///< V
  int64_t context_length = 0;  ///< longest sequence the model was made for; 0: unknown
  std::optional<StackSpec> encoder;
  StackSpec stack;  ///< the only stack, or the decoder
  HeadSpec head;
  /// Encoder and decoder embed by one token table, whose parameters count once.
  bool shared_token_table = false;
  bool operator==(const ModelSpec&) const = default;
};

/// Throw Error (bad input) at the first number that cannot be: names the field, what is allowed
/// and what was found.
void validate(const BlockSpec& spec);
void validate(const ModelSpec& spec);

std::string_view name(NormKind kind);            ///< "layer", "rms"
std::string_view name(NormPlacement placement);  ///< "pre", "post", "sandwich", "output-only"
std::string_view name(ResidualForm form);        ///< "sequential", "parallel", "parallel-shared"
std::string_view name(RotaryPairing pairing);    ///< "half-split", "interleaved"
std::string_view name(RotaryScalingKind kind);   ///< "none", "linear", "dynamic", "yarn", …
std::string_view name(QkNormScope scope);        ///< "per-head", "whole"
std::string_view name(MaskKind mask);            ///< "causal", "full", "window"
std::string_view name(PositionKind kind);        ///< "none", "learned", "sinusoidal", …
std::string_view name(HeadKind kind);            ///< "none", "linear", "masked-language"
std::string_view name(Activation activation);    ///< "silu", "gelu-erf", …

}  // namespace mainstem
