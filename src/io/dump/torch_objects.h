#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "io/dump/pickle.h"
#include "mainstem/tensor.h"

namespace mainstem {

/// An element type of PyTorch.
struct TorchType {
  std::string_view dtype_name;    ///< "float32"
  std::string_view storage_name;  ///< "FloatStorage"; empty where only untyped storages hold it
  std::optional<DType> dtype;     ///< empty: known, but not read
  int bytes;
};

/// A storage as a pickle names it; its bytes lie elsewhere.
struct TorchStorage {
  std::string_view key;
  const TorchType* type = nullptr;  ///< nullptr: untyped, `count` is in bytes
  int64_t count = 0;

  int64_t element_bytes() const { return type == nullptr ? 1 : type->bytes; }
  int64_t bytes() const { return count * element_bytes(); }  ///< checked when it was loaded
};

/// A view of a storage.
struct TorchTensor {
  size_t storage = 0;
  const TorchType* type = nullptr;
  int64_t offset = 0;  ///< in elements
  Shape sizes, strides;
};

/// The few globals that pickles of tensors in plain containers need (torch/_utils.py and
/// torch/serialization.py of PyTorch 2.13, and what older versions wrote): tensors, parameters,
/// storages, dtypes, Size, device, OrderedDict, defaultdict.
class TorchWorld final : public PickleWorld {
 public:
  int64_t find_global(std::string_view module, std::string_view name) override;
  PickleRef reduce(Pickle& pickle, int64_t global, PickleRef arguments) override;
  PickleRef load_persistent(Pickle& pickle, PickleRef id) override;

  const std::vector<TorchStorage>& storages() const { return storages_; }
  const std::vector<TorchTensor>& tensors() const { return tensors_; }
  /// nullptr where the value is no tensor.
  const TorchTensor* tensor_of(const PickleValue& value) const;
  /// Index of the storage with that key.
  std::optional<size_t> find_storage(std::string_view key) const;

 private:
  PickleRef rebuild_tensor(Pickle& pickle, const std::vector<PickleRef>& parts, int version);

  std::vector<TorchStorage> storages_;
  std::vector<TorchTensor> tensors_;
  std::map<std::string_view, size_t> by_key_;
};

}  // namespace mainstem
