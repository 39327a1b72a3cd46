#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

#include "mainstem/safetensors.h"
#include "mainstem/spec.h"
#include "mainstem/weights.h"

namespace mainstem {

/// The arguments of a torch.nn.TransformerEncoderLayer that its state dict does not show.
struct TorchLayerOptions {
  int64_t heads = 0;                          ///< nhead; divides D
  Activation activation = Activation::kRelu;  ///< activation
  double eps = 1e-5;                          ///< layer_norm_eps
  bool norm_first = false;
  bool bias = true;
  bool causal = false;  ///< called with a causal src_mask
};

/// What a Block is made of.
struct TorchLayer {
  BlockSpec spec;
  WeightSources weights;
};

/// One torch.nn.TransformerEncoderLayer (torch 2.13) as a block: its state dict, "self_attn.
/// in_proj_weight" [3D,D] (the rows of q, k, v), "self_attn.out_proj.weight" [D,D],
/// "linear1.weight" [F,D], "linear2.weight" [D,F], "norm1.weight" [D], "norm2.weight" [D] and the
/// biases. D and F are read from linear1; nothing is copied. Errors (bad input) list every name
/// that is missing or that the layer does not have; a shape that does not fit; (usage) heads that
/// do not divide D. `keep_alive` holds the memory of the views, or is empty where the caller does.
///
///     const auto file = mainstem::SafetensorsFile::open("encoder.safetensors");
///     const auto layer = mainstem::torch_encoder_layer(file, "layers.0.", {.heads = 8});
///     const mainstem::Block block(layer.spec, layer.weights);
TorchLayer torch_encoder_layer(std::span<const NamedTensor> state, const TorchLayerOptions& options,
                               const std::shared_ptr<const void>& keep_alive = {});
/// Of the tensors of a file whose names begin with `prefix`; others are not looked at. The mapped
/// file stays alive with the weights.
TorchLayer torch_encoder_layer(const SafetensorsFile& file, std::string_view prefix,
                               const TorchLayerOptions& options);

}  // namespace mainstem
