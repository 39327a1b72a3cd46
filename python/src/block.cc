#include "mainstem/block.h"

#include <nanobind/stl/string.h>
#include <nanobind/stl/unique_ptr.h>
#include <nanobind/stl/vector.h>

#include <memory>

#include "arrays.h"
#include "long_call.h"
#include "mainstem/error.h"
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
      .def("sites", [](const OwnedBlock& self) { return site_table(self.block.program()); })
      .def("output_site", [](const OwnedBlock& self) { return output_site(self.block.program()); })
      .def("trace", &trace, nb::arg("x"), nb::arg("sites"), nb::arg("compute"), nb::arg("threads"));
  module.def("block_weights", &weight_table, nb::arg("spec"));
}

}  // namespace mainstem::python
