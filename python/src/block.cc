#include "mainstem/block.h"

#include <nanobind/stl/string.h>
#include <nanobind/stl/unique_ptr.h>
#include <nanobind/stl/vector.h>

#include <memory>

#include "arrays.h"
#include "long_call.h"
#include "mainstem/decoder_block.h"
#include "mainstem/error.h"
#include "mainstem/torch_layer.h"
#include "spec.h"
#include "steps.h"

namespace mainstem::python {
namespace {

/// A block and the arrays that its weights lie in.
struct OwnedBlock {
  Block block;
  std::vector<NamedArray> arrays;
};

std::unique_ptr<OwnedBlock> make_block(const nb::dict& spec, const nb::list& weights) {
  std::vector<NamedArray> arrays;
  WeightSources sources;
  for (nb::handle each : weights) {
    const NamedArray& named = arrays.emplace_back(named_array(each));
    WeightSource source{.stored_name = named.name};
    source.tensor = view_of(named, &source.transposed);
    sources.emplace(named.name, std::move(source));
  }
  return std::make_unique<OwnedBlock>(OwnedBlock{Block(block_spec_from(spec), sources), arrays});
}

/// The arrays of a state dict; `kept` holds them.
std::vector<NamedTensor> state_views(const nb::list& state, std::vector<NamedArray>& kept) {
  std::vector<NamedTensor> views;
  for (nb::handle each : state) {
    const NamedArray& named = kept.emplace_back(named_array(each));
    views.push_back({named.name, view_of(named)});
  }
  return views;
}

std::unique_ptr<OwnedBlock> encoder_layer(const nb::list& state, int64_t heads,
                                          nb::handle activation, double eps, bool norm_first,
                                          bool bias, bool causal) {
  std::vector<NamedArray> arrays;
  const TorchLayer layer =
      torch_encoder_layer(state_views(state, arrays), {.heads = heads,
                                                       .activation = activation_from(activation),
                                                       .eps = eps,
                                                       .norm_first = norm_first,
                                                       .bias = bias,
                                                       .causal = causal});
  return std::make_unique<OwnedBlock>(OwnedBlock{Block(layer.spec, layer.weights), arrays});
}

DecoderBlockMlp decoder_mlp_named(const std::string& text) {
  if (text == "swiglu") return DecoderBlockMlp::kSwiGlu;
  if (text == "gelu-erf") return DecoderBlockMlp::kGelu;
  if (text == "gelu") return DecoderBlockMlp::kGeluTanh;
  throw usage_error("mlp", "swiglu, gelu (the tanh form) or gelu-erf", "'" + text + "'");
}

std::unique_ptr<OwnedBlock> decoder_block(const nb::list& state, int64_t width, int64_t heads,
                                          nb::handle norm, const std::string& mlp) {
  const DecoderBlockOptions options{
      .width = width, .heads = heads, .norm = norm_kind_from(norm), .mlp = decoder_mlp_named(mlp)};
  std::vector<NamedArray> arrays;
  const std::vector<NamedTensor> views = state_views(state, arrays);
  Block block(decoder_block_spec(options), decoder_block_weights(options, views));
  return std::make_unique<OwnedBlock>(OwnedBlock{std::move(block), arrays});
}

/// The rows of x [B,T,D] as inputs of a pass.
std::vector<SequenceInput> block_inputs(const OwnedBlock& self, const NamedArray& x) {
  const TensorView view = view_of(x);
  const int64_t width = self.block.program().spec.stack.width;
  if (view.rank() != 3 || view.dim(2) != width || view.count() == 0) {
    throw usage_error("x", "[B,T,D] with D = " + std::to_string(width), to_string(view.shape()));
  }
  std::vector<SequenceInput> inputs(static_cast<size_t>(view.dim(0)));
  for (int64_t b = 0; b < view.dim(0); ++b) {
    std::vector<double>& rows = inputs[static_cast<size_t>(b)].input;
    rows.resize(static_cast<size_t>(view.dim(1) * width));
    for (int64_t t = 0; t < view.dim(1); ++t) {
      read_row(view, b * view.dim(1) + t, rows.data() + t * width);
    }
  }
  return inputs;
}

nb::list trace(const OwnedBlock& self, const nb::tuple& x, const std::vector<std::string>& sites,
               const std::string& compute, int threads) {
  return traced(self.block.bound(), block_inputs(self, named_array(x)), sites,
                {.compute = compute_named(compute), .threads = threads});
}

nb::list weight_table(const nb::dict& spec) {
  nb::list table;
  for (const WeightInfo& info : Block::weight_names(block_spec_from(spec))) {
    table.append(nb::make_tuple(info.name, info.shape));
  }
  return table;
}

}  // namespace

void bind_block(nb::module_& module) {
  nb::class_<OwnedBlock>(module, "Block")
      .def(nb::new_(&make_block), nb::arg("spec"), nb::arg("weights"))
      .def("spec",
           [](const OwnedBlock& self) {
             return to_dict(self.block.program().spec.stack.blocks.front());
           })
      .def("sites", [](const OwnedBlock& self) { return site_table(self.block.program()); })
      .def("output_site", [](const OwnedBlock& self) { return output_site(self.block.program()); })
      .def("trace", &trace, nb::arg("x"), nb::arg("sites"), nb::arg("compute"), nb::arg("threads"));
  module.def("encoder_layer", &encoder_layer, nb::arg("state"), nb::arg("heads"),
             nb::arg("activation"), nb::arg("eps"), nb::arg("norm_first"), nb::arg("bias"),
             nb::arg("causal"));
  module.def("decoder_block", &decoder_block, nb::arg("state"), nb::arg("width"), nb::arg("heads"),
             nb::arg("norm"), nb::arg("mlp"));
  module.def("block_weights", &weight_table, nb::arg("spec"));
}

}  // namespace mainstem::python
