#include "mainstem/dump.h"

#include <nanobind/stl/string.h>
#include <nanobind/stl/unique_ptr.h>
#include <nanobind/stl/vector.h>

#include <memory>

#include "arrays.h"
#include "bound_dump.h"
#include "long_call.h"
#include "mainstem/npz.h"
#include "mainstem/safetensors.h"
#include "mainstem/session.h"

namespace mainstem::python {
namespace {

std::unique_ptr<OwnedDump> open(const std::string& path) {
  return std::make_unique<OwnedDump>(
      OwnedDump{interruptible([&](const CancelFlag&) { return Dump::open(path); }), {}});
}

std::unique_ptr<OwnedDump> from_arrays(const nb::list& arrays, const std::string& name) {
  std::vector<NamedArray> kept;
  std::vector<NamedTensor> tensors;
  for (nb::handle each : arrays) {
    const NamedArray& named = kept.emplace_back(named_array(each));
    tensors.push_back({named.name, view_of(named)});
  }
  return std::make_unique<OwnedDump>(OwnedDump{Dump::from_tensors(tensors, name), kept});
}

/// Every tensor that is there whole; bfloat16, which numpy does not have, widened to float32.
nb::list read_all(const OwnedDump& self) {
  const auto read = interruptible([&](const CancelFlag& cancel) {
    std::vector<std::pair<std::string, Tensor>> values;
    for (const DumpTensor& each : self.dump.tensors()) {
      if (cancel) throw Cancelled{};
      if (each.printed) continue;
      Tensor value = self.dump.read(each);
      if (value.dtype() == DType::kBF16) {
        value = Tensor::from_f32(value.shape(), to_f32(value.view()));
      }
      values.emplace_back(each.name, std::move(value));
    }
    return values;
  });
  nb::list list;
  for (const auto& [tensor_name, value] : read) {
    list.append(nb::make_tuple(tensor_name, to_numpy(value)));
  }
  return list;
}

nb::list table(const OwnedDump& self) {
  nb::list list;
  for (const DumpTensor& each : self.dump.tensors()) {
    list.append(nb::make_tuple(each.name, std::string(name(each.dtype)), each.shape));
  }
  return list;
}

/// The package has seen to it that the name ends in one of the two.
void save(const std::string& path, const nb::list& arrays) {
  std::vector<NamedArray> kept;
  std::vector<NamedTensor> tensors;
  for (nb::handle each : arrays) {
    const NamedArray& named = kept.emplace_back(named_array(each));
    tensors.push_back({named.name, view_of(named)});
  }
  const nb::gil_scoped_release release;
  path.ends_with(".npz") ? write_npz(path, tensors) : write_safetensors(path, tensors);
}

}  // namespace

void bind_dump(nb::module_& module) {
  nb::class_<OwnedDump>(module, "Dump")
      .def_static("open", &open, nb::arg("path"))
      .def_static("from_arrays", &from_arrays, nb::arg("arrays"), nb::arg("name"))
      .def_prop_ro("format",
                   [](const OwnedDump& self) { return std::string(name(self.dump.format())); })
      .def("tensors", &table)
      .def("read_all", &read_all);
  module.def("save", &save, nb::arg("path"), nb::arg("arrays"));
}

}  // namespace mainstem::python
