#include "spec.h"

#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <concepts>
#include <optional>
#include <type_traits>

#include "mainstem/error.h"

namespace mainstem::python {
namespace {

// Every enum of a spec, in the order of its values.
template <typename E>
constexpr int kCount = 0;
template <>
constexpr int kCount<NormKind> = static_cast<int>(NormKind::kRms) + 1;
template <>
constexpr int kCount<NormPlacement> = static_cast<int>(NormPlacement::kOutputOnly) + 1;
template <>
constexpr int kCount<ResidualForm> = static_cast<int>(ResidualForm::kParallelSharedNorm) + 1;
template <>
constexpr int kCount<RotaryPairing> = static_cast<int>(RotaryPairing::kInterleaved) + 1;
template <>
constexpr int kCount<RotaryScalingKind> = static_cast<int>(RotaryScalingKind::kDivisors) + 1;
template <>
constexpr int kCount<QkNormScope> = static_cast<int>(QkNormScope::kWhole) + 1;
template <>
constexpr int kCount<MaskKind> = static_cast<int>(MaskKind::kWindow) + 1;
template <>
constexpr int kCount<PositionKind> = static_cast<int>(PositionKind::kSinusoidalHalves) + 1;
template <>
constexpr int kCount<Activation> = static_cast<int>(Activation::kQuickGelu) + 1;
template <>
constexpr int kCount<HeadKind> = static_cast<int>(HeadKind::kMaskedLanguage) + 1;

// One list of fields for both directions.
template <typename V>
void fields(V& v, NormSpec& s) {
  v("kind", s.kind), v("eps", s.eps), v("weight_offset", s.weight_offset);
  v("weight", s.weight), v("bias", s.bias);
}
template <typename V>
void fields(V& v, RotaryScaling& s) {
  v("kind", s.kind), v("factor", s.factor), v("original_context", s.original_context);
  v("low_freq_factor", s.low_freq_factor), v("high_freq_factor", s.high_freq_factor);
  v("beta_fast", s.beta_fast), v("beta_slow", s.beta_slow), v("truncate", s.truncate);
  v("attention_factor", s.attention_factor), v("mscale", s.mscale);
  v("mscale_all_dim", s.mscale_all_dim), v("short_divisors", s.short_divisors);
  v("long_divisors", s.long_divisors);
}
template <typename V>
void fields(V& v, RotarySpec& s) {
  v("pairing", s.pairing), v("width", s.width), v("base", s.base), v("scaling", s.scaling);
}
template <typename V>
void fields(V& v, QkNormSpec& s) {
  v("scope", s.scope), v("norm", s.norm), v("weight_per_head", s.weight_per_head);
  v("after_rotary", s.after_rotary);
}
template <typename V>
void fields(V& v, AttentionSpec& s) {
  v("heads", s.heads), v("kv_heads", s.kv_heads), v("head_width", s.head_width);
  v("q_bias", s.q_bias), v("k_bias", s.k_bias), v("v_bias", s.v_bias);
  v("output_bias", s.output_bias), v("output_projection", s.output_projection);
  v("qk_norm", s.qk_norm), v("rotary", s.rotary), v("alibi_slopes", s.alibi_slopes);
  v("mask", s.mask), v("window", s.window), v("score_scale", s.score_scale);
  v("soft_cap", s.soft_cap);
}
template <typename V>
void fields(V& v, MlpSpec& s) {
  v("hidden", s.hidden), v("gated", s.gated), v("activation", s.activation);
  v("combined", s.combined), v("up_bias", s.up_bias), v("down_bias", s.down_bias);
}
template <typename V>
void fields(V& v, BlockSpec& s) {
  v("width", s.width), v("norm", s.norm), v("placement", s.placement), v("residual", s.residual);
  v("residual_multiplier", s.residual_multiplier), v("attention", s.attention);
  v("cross_attention", s.cross_attention), v("mlp", s.mlp);
}
template <typename V>
void fields(V& v, StackSpec& s) {
  v("width", s.width), v("embed_width", s.embed_width), v("embed_scale", s.embed_scale);
  v("positions", s.positions), v("position_rows", s.position_rows);
  v("position_offset", s.position_offset), v("token_types", s.token_types);
  v("embed_norm", s.embed_norm), v("blocks", s.blocks), v("final_norm", s.final_norm);
}
template <typename V>
void fields(V& v, HeadSpec& s) {
  v("kind", s.kind), v("tied", s.tied), v("bias", s.bias);
  v("projection_width", s.projection_width), v("activation", s.activation), v("norm", s.norm);
  v("logit_scale", s.logit_scale), v("logit_cap", s.logit_cap), v("pooler", s.pooler);
}
template <typename V>
void fields(V& v, ModelSpec& s) {
  v("vocab_size", s.vocab_size), v("context_length", s.context_length), v("encoder", s.encoder);
  v("stack", s.stack), v("head", s.head), v("shared_token_table", s.shared_token_table);
}

template <typename T>
struct IsVector : std::false_type {};
template <typename T>
struct IsVector<std::vector<T>> : std::true_type {};
template <typename T>
struct IsOptional : std::false_type {};
template <typename T>
struct IsOptional<std::optional<T>> : std::true_type {};

template <typename T>
nb::object written(T& value);

struct Writer {
  nb::dict out;
  template <typename T>
  void operator()(const char* key, T& value) {
    out[key] = written(value);
  }
};

template <typename T>
nb::object written(T& value) {
  if constexpr (std::is_enum_v<T>) {
    return nb::cast(std::string(name(value)));
  } else if constexpr (std::is_arithmetic_v<T>) {
    return nb::cast(value);
  } else if constexpr (IsOptional<T>::value) {
    return value ? written(*value) : nb::none();
  } else if constexpr (IsVector<T>::value) {
    nb::list list;
    for (auto& each : value) list.append(written(each));
    return list;
  } else {
    Writer writer;
    fields(writer, value);
    return writer.out;
  }
}

template <typename T>
void read(const std::string& where, nb::handle from, T& value);

struct Reader {
  nb::dict from;
  std::string where;
  template <typename T>
  void operator()(const char* key, T& value) {
    const std::string path = where.empty() ? key : where + "." + key;
    if (!from.contains(key)) throw usage_error(path, "a value", "none");
    read(path, from[key], value);
  }
};

[[noreturn]] void refuse(const std::string& where, const char* expected, nb::handle got) {
  throw usage_error(where, expected, nb::cast<std::string>(nb::repr(got)));
}

template <typename E>
void read_enum(const std::string& where, nb::handle from, E& value) {
  std::string words;
  for (int i = 0; i < kCount<E>; ++i) {
    const std::string_view each = name(static_cast<E>(i));
    if (nb::isinstance<nb::str>(from) && nb::cast<std::string>(from) == each) {
      value = static_cast<E>(i);
      return;
    }
    words += (i > 0 ? ", " : "") + std::string(each);
  }
  refuse(where, words.c_str(), from);
}

template <typename T>
void read(const std::string& where, nb::handle from, T& value) {
  if constexpr (std::is_enum_v<T>) {
    read_enum(where, from, value);
  } else if constexpr (std::is_arithmetic_v<T>) {
    if (!nb::try_cast(from, value)) {
      refuse(where, std::same_as<T, bool> ? "True or False" : "a number", from);
    }
  } else if constexpr (IsOptional<T>::value) {
    value.reset();
    if (!from.is_none()) read(where, from, value.emplace());
  } else if constexpr (IsVector<T>::value) {
    value.clear();
    if (!nb::isinstance<nb::list>(from)) refuse(where, "a list", from);
    for (nb::handle each : nb::borrow<nb::list>(from)) {
      read(where + "[" + std::to_string(value.size()) + "]", each, value.emplace_back());
    }
  } else {
    if (!nb::isinstance<nb::dict>(from)) refuse(where, "the fields of a spec", from);
    Reader reader{nb::borrow<nb::dict>(from), where};
    fields(reader, value);
  }
}

}  // namespace

nb::dict to_dict(const ModelSpec& spec) {
  ModelSpec copy = spec;
  return nb::borrow<nb::dict>(written(copy));
}

nb::dict to_dict(const BlockSpec& spec) {
  BlockSpec copy = spec;
  return nb::borrow<nb::dict>(written(copy));
}

Activation activation_from(nb::handle from) {
  Activation activation{};
  read("activation", from, activation);
  return activation;
}

NormKind norm_kind_from(nb::handle from) {
  NormKind kind{};
  read("norm", from, kind);
  return kind;
}

BlockSpec block_spec_from(const nb::dict& from) {
  BlockSpec spec;
  read("", from, spec);
  return spec;
}

void bind_spec(nb::module_& module) {
  // For tests: what the classes in spec.py have to look like.
  module.def(
      "normalised_block_spec",
      [](const nb::dict& block) {
        const BlockSpec spec = block_spec_from(block);
        validate(spec);
        return to_dict(spec);
      },
      nb::arg("spec"), "The spec as the library holds it, once it is found to be possible.");
}

}  // namespace mainstem::python
