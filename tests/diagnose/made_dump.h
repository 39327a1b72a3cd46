#pragma once

#include <cstdlib>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "mainstem/dump.h"
#include "mainstem/model.h"
#include "mainstem/safetensors.h"
#include "mainstem/session.h"
#include "support/golden_families.h"

// Dumps of tiny models for the tests of diff and doctor: what some program computed, written as
// somebody's own implementation would write it.

namespace mainstem::testing {

inline Model load_family(const std::string& family) {
  return Model::load(golden_families_folder() / family,
                     {.allow_unknown_keys = {}, .skip_tokenizer = true});
}

/// Ids of a text of so many tokens; of an encoder-decoder both stacks get some.
inline SequenceInput some_input(const Model& model, int64_t tokens) {
  SequenceInput input;
  const int64_t vocab = model.spec().vocab_size;
  for (int64_t t = 0; t < tokens; ++t) input.tokens.push_back((t * 7 + 3) % vocab);
  if (model.spec().encoder) {
    for (int64_t t = 0; t < tokens + 2; ++t) input.encoder_tokens.push_back((t * 5 + 1) % vocab);
  }
  return input;
}

/// Values by name, in the order of the computation.
class MadeDump {
 public:
  /// Runs a program (the model's own, or an edited one) over the input.
  MadeDump(const std::shared_ptr<const BoundProgram>& bound, const SequenceInput& input,
           const SessionOptions& how) {
    SessionOptions options = how;
    options.sites = all_sites(bound->program());
    options.threads = 1;
    Session session(bound, options);
    SequenceInput own = input;
    own.sequence = session.add_sequence();
    session.observe({&own, 1}, [&](const TraceEvent& event) {
      Tensor copy(event.value.dtype(), event.value.shape());
      std::copy_n(event.value.data(), event.value.bytes(), copy.data<std::byte>());
      tensors_.emplace_back(to_string(event.site), std::move(copy));
    });
  }

  /// Tensors share their memory; copies of a dump do not.
  MadeDump(const MadeDump& other) { *this = other; }
  MadeDump& operator=(const MadeDump& other) {
    tensors_.clear();
    for (const auto& [name, tensor] : other.tensors_) {
      Tensor copy(tensor.dtype(), tensor.shape());
      std::copy_n(tensor.view().data(), tensor.view().bytes(), copy.data<std::byte>());
      tensors_.emplace_back(name, std::move(copy));
    }
    return *this;
  }

  /// The element type of float values in the file.
  void store_as(DType dtype) {
    for (auto& [name, tensor] : tensors_) {
      if (tensor.dtype() != DType::kI64) tensor = stored(tensor, dtype);
    }
  }
  void store_one_as(const std::string& name, DType dtype) { at(name) = stored(at(name), dtype); }
  /// Keeps what the predicate likes.
  void keep(const std::function<bool(const std::string&)>& wanted) {
    std::erase_if(tensors_, [&](const auto& each) { return !wanted(each.first); });
  }
  Tensor& at(const std::string& name) {
    for (auto& [each, tensor] : tensors_) {
      if (each == name) return tensor;
    }
    throw std::out_of_range(name);
  }

  Dump open() const {
    std::vector<NamedTensor> named;
    for (const auto& [name, tensor] : tensors_) named.push_back({name, tensor.view()});
    std::string pattern =
        (std::filesystem::temp_directory_path() / "mainstem-dump-XXXXXX").string();
    const std::filesystem::path folder = mkdtemp(pattern.data());
    write_safetensors(folder / "dump.safetensors", named);
    Dump dump = Dump::open(folder / "dump.safetensors");
    std::filesystem::remove_all(folder);  // it stays mapped
    return dump;
  }

 private:
  static Tensor stored(const Tensor& tensor, DType dtype) {
    const std::vector<double> values = to_f64(tensor.view());
    Tensor narrow(dtype, tensor.shape());
    for (size_t i = 0; i < values.size(); ++i) {
      const auto value = static_cast<float>(values[i]);
      if (dtype == DType::kF32) narrow.data<float>()[i] = value;
      if (dtype == DType::kBF16) narrow.data<uint16_t>()[i] = f32_to_bf16(value);
      if (dtype == DType::kF16) narrow.data<uint16_t>()[i] = f32_to_f16(value);
      if (dtype == DType::kF64) narrow.data<double>()[i] = values[i];
    }
    return narrow;
  }

  std::vector<std::pair<std::string, Tensor>> tensors_;
};

}  // namespace mainstem::testing
