#include "models/activation_names.h"

#include <array>
#include <utility>

namespace mainstem {
namespace {

constexpr std::pair<std::string_view, Activation> kNames[] = {
    {"gelu", Activation::kGeluErf},
    {"gelu_python", Activation::kGeluErf},
    {"gelu_new", Activation::kGeluTanh},
    {"gelu_fast", Activation::kGeluTanh},
    {"gelu_pytorch_tanh", Activation::kGeluTanh},
    {"gelu_accurate", Activation::kGeluTanh},
    {"silu", Activation::kSilu},
    {"swish", Activation::kSilu},
    {"quick_gelu", Activation::kQuickGelu},
    {"relu", Activation::kRelu},
    {"relu2", Activation::kReluSquared},
};

}  // namespace

Activation read_activation(ConfigReader& config, std::string_view key,
                           const std::string& fallback) {
  const std::string wanted = config.string_or(key, fallback);
  std::string known;
  for (const auto& [text, activation] : kNames) {
    if (text == wanted) return activation;
    known += (known.empty() ? "" : ", ") + std::string(text);
  }
  config.fail(key, "one of " + known);
}

}  // namespace mainstem
