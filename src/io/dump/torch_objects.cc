#include "io/dump/torch_objects.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "base/checked.h"
#include "io/text.h"
#include "mainstem/error.h"

namespace mainstem {
namespace {

constexpr TorchType kTypes[] = {
    {"float32", "FloatStorage", DType::kF32, 4},
    {"float64", "DoubleStorage", DType::kF64, 8},
    {"float16", "HalfStorage", DType::kF16, 2},
    {"bfloat16", "BFloat16Storage", DType::kBF16, 2},
    {"int64", "LongStorage", DType::kI64, 8},
    {"int32", "IntStorage", DType::kI32, 4},
    {"int16", "ShortStorage", DType::kI16, 2},
    {"int8", "CharStorage", DType::kI8, 1},
    {"uint8", "ByteStorage", DType::kU8, 1},
    {"bool", "BoolStorage", DType::kBool, 1},
    {"uint16", "", DType::kU16, 2},
    {"uint32", "", DType::kU32, 4},
    {"uint64", "", DType::kU64, 8},
    {"float8_e4m3fn", "", DType::kF8E4M3, 1},
    {"float8_e5m2", "", DType::kF8E5M2, 1},
    {"complex64", "ComplexFloatStorage", {}, 8},
    {"complex128", "ComplexDoubleStorage", {}, 16},
    {"complex32", "", {}, 4},
    {"float8_e4m3fnuz", "", {}, 1},
    {"float8_e5m2fnuz", "", {}, 1},
    {"float8_e8m0fnu", "", {}, 1},
};
constexpr int64_t kTypeCount = std::size(kTypes);

// Numbers of globals. Behind the last come the storage classes and then the dtypes, in the order of
// the table above.
enum Global : int64_t {
  kRebuildTensor,
  kRebuildTensorV2,
  kRebuildTensorV3,
  kRebuildParameter,
  kRebuildFromType,
  kDict,
  kSize,
  kIgnored,  // may be named and called; its value is not looked at
  kUntypedStorage,
  kFirstStorage,
  kFirstDtype = kFirstStorage + kTypeCount,
};

struct Named {
  std::string_view module, name;
  Global global;
};
constexpr Named kGlobals[] = {
    {"torch._utils", "_rebuild_tensor_v2", kRebuildTensorV2},
    {"torch._utils", "_rebuild_tensor_v3", kRebuildTensorV3},
    {"torch._utils", "_rebuild_tensor", kRebuildTensor},
    {"torch._utils", "_rebuild_parameter", kRebuildParameter},
    {"torch._utils", "_rebuild_parameter_with_state", kRebuildParameter},
    {"torch._tensor", "_rebuild_from_type_v2", kRebuildFromType},
    {"torch.storage", "UntypedStorage", kUntypedStorage},
    {"torch.storage", "_UntypedStorage", kUntypedStorage},
    {"torch", "UntypedStorage", kUntypedStorage},
    {"torch", "Size", kSize},
    {"torch", "device", kIgnored},
    {"torch", "Tensor", kIgnored},
    {"torch.nn.parameter", "Parameter", kIgnored},
    {"torch.nn.parameter", "Buffer", kIgnored},
    {"collections", "OrderedDict", kDict},
    {"collections", "defaultdict", kDict},
    {"builtins", "list", kIgnored},
    {"builtins", "dict", kIgnored},
    {"__builtin__", "list", kIgnored},
    {"__builtin__", "dict", kIgnored},
    {"_codecs", "encode", kIgnored},  // how protocol 2 writes bytes
};

constexpr size_t kMaxRank = 64;

int64_t int_of(const PickleValue& value, const char* what) {
  if (value.kind != PickleKind::kInt || value.integer < 0) {
    throw bad_input(what, "an integer of at least 0",
                    value.kind == PickleKind::kInt ? std::to_string(value.integer)
                                                   : std::string(name(value.kind)));
  }
  return value.integer;
}

Shape ints_of(const Pickle& pickle, PickleRef ref, const char* what) {
  const PickleValue& value = pickle[ref];
  if (value.kind != PickleKind::kTuple && value.kind != PickleKind::kList) {
    throw bad_input(what, "a tuple of integers", std::string(name(value.kind)));
  }
  if (value.items.size() > kMaxRank) {
    throw bad_input(what, "at most 64 dimensions", std::to_string(value.items.size()));
  }
  Shape result;
  for (const PickleRef item : value.items) result.push_back(int_of(pickle[item], what));
  return result;
}

// Every element must lie in the storage, and a tensor whose elements share memory may not be so
// much larger than it that reading costs what the file does not hold.
void check_extent(const TorchTensor& tensor, const TorchStorage& storage) {
  const int64_t count = element_count(tensor.sizes);
  const int64_t bytes = checked_mul<int64_t>(count, tensor.type->bytes, "tensor size");
  if (count == 0) return;
  int64_t last = tensor.offset;
  for (size_t axis = 0; axis < tensor.sizes.size(); ++axis) {
    const auto step = checked_mul(tensor.sizes[axis] - 1, tensor.strides[axis], "tensor extent");
    last = checked_add(last, step, "tensor extent");
  }
  const int64_t present = storage.bytes() / tensor.type->bytes;
  if (last >= present) {
    throw bad_input("tensor extent", "elements inside the storage of " + std::to_string(present),
                    "size " + to_string(tensor.sizes) + ", stride " + to_string(tensor.strides) +
                        ", offset " + std::to_string(tensor.offset));
  }
  if (bytes > (int64_t{64} << 20) && bytes / 8 > storage.bytes()) {
    throw bad_input(
        "expanded tensor",
        "at most 64 MiB or 8 times its storage of " + std::to_string(storage.bytes()) + " bytes",
        std::to_string(bytes) + " bytes")
        .hint("save what was expanded, not the expanded tensor");
  }
}

PickleRef add_object(Pickle& pickle, int64_t number) {
  return pickle.add({.kind = PickleKind::kObject, .integer = number, .text = {}, .items = {}});
}

[[noreturn]] void wrong_arguments(const char* what, size_t count) {
  throw bad_input(what, "the arguments that PyTorch writes", std::to_string(count) + " others");
}

}  // namespace

int64_t TorchWorld::find_global(std::string_view module, std::string_view name) {
  for (const Named& known : kGlobals) {
    if (known.module == module && known.name == name) return known.global;
  }
  if (module == "torch" || module == "torch.cuda") {
    for (int64_t i = 0; i < kTypeCount; ++i) {
      if (name == kTypes[i].storage_name && !name.empty()) return kFirstStorage + i;
      if (name == kTypes[i].dtype_name) return kFirstDtype + i;
    }
  }
  throw bad_input("pickle global", "tensors in dicts, lists and tuples",
                  quote(std::string(module) + "." + std::string(name)))
      .hint("nothing else is loaded: save plain containers, dict(output) for a model's output");
}

PickleRef TorchWorld::reduce(Pickle& pickle, int64_t global, PickleRef arguments) {
  // Adding values does not move others.
  const std::vector<PickleRef>* list = &pickle[arguments].items;
  if (global == kRebuildFromType) {
    // (function, class, its arguments, attributes), for a tensor that has attributes
    const std::vector<PickleRef>& parts = *list;
    const bool right = parts.size() == 4 && pickle[parts[0]].kind == PickleKind::kGlobal &&
                       pickle[parts[0]].integer != kRebuildFromType &&
                       pickle[parts[2]].kind == PickleKind::kTuple;
    if (!right) wrong_arguments("_rebuild_from_type_v2", parts.size());
    global = pickle[parts[0]].integer;
    list = &pickle[parts[2]].items;
  }
  const std::vector<PickleRef>& parts = *list;
  switch (global) {
    case kRebuildTensor:
      return rebuild_tensor(pickle, parts, 1);
    case kRebuildTensorV2:
      return rebuild_tensor(pickle, parts, 2);
    case kRebuildTensorV3:
      return rebuild_tensor(pickle, parts, 3);
    case kRebuildParameter:
      if (parts.empty() || tensor_of(pickle[parts[0]]) == nullptr) {
        wrong_arguments("_rebuild_parameter", parts.size());
      }
      return parts[0];
    case kDict: {  // a defaultdict has the class of its values
      const bool plain =
          parts.empty() || (parts.size() == 1 && pickle[parts[0]].kind == PickleKind::kGlobal);
      if (!plain) wrong_arguments("dict", parts.size());
      return pickle.add({.kind = PickleKind::kDict, .text = {}, .items = {}});
    }
    case kSize:
      if (parts.size() != 1 || pickle[parts[0]].kind != PickleKind::kTuple) {
        wrong_arguments("torch.Size", parts.size());
      }
      return parts[0];
    default:
      return pickle.add({.kind = PickleKind::kIgnored, .text = {}, .items = {}});
  }
}

// Version 1: (storage, offset, size, stride); 2: …, requires_grad, hooks[, metadata]);
// 3: …, requires_grad, hooks, dtype[, metadata]).
PickleRef TorchWorld::rebuild_tensor(Pickle& pickle, const std::vector<PickleRef>& parts,
                                     int version) {
  const size_t least = version == 1 ? 4 : version == 2 ? 6 : 7;
  const size_t most = version == 1 ? 4 : least + 1;
  if (parts.size() < least || parts.size() > most) wrong_arguments("tensor", parts.size());
  const PickleValue& object = pickle[parts[0]];
  if (object.kind != PickleKind::kObject || object.integer >= 0) {
    throw bad_input("tensor", "a storage", std::string(name(object.kind)));
  }
  TorchTensor tensor;
  tensor.storage = static_cast<size_t>(~object.integer);
  const TorchStorage& storage = storages_[tensor.storage];
  tensor.type = storage.type;
  if (version == 3) {
    const PickleValue& dtype = pickle[parts[6]];
    if (dtype.kind != PickleKind::kGlobal || dtype.integer < kFirstDtype) {
      throw bad_input("tensor dtype", "a torch.dtype", std::string(name(dtype.kind)));
    }
    tensor.type = &kTypes[dtype.integer - kFirstDtype];
  }
  if (tensor.type == nullptr) throw bad_input("tensor", "a typed storage", "an untyped one");
  if (parts.size() == most && version > 1 && !pickle[parts[most - 1]].items.empty()) {
    throw bad_input("tensor", "a plain one", "one with metadata (conjugated or negated)")
        .hint("save tensor.resolve_conj().resolve_neg()");
  }
  tensor.offset = int_of(pickle[parts[1]], "tensor offset");
  tensor.sizes = ints_of(pickle, parts[2], "tensor size");
  tensor.strides = ints_of(pickle, parts[3], "tensor stride");
  if (tensor.strides.size() != tensor.sizes.size()) {
    throw bad_input("tensor stride", std::to_string(tensor.sizes.size()) + " of them",
                    std::to_string(tensor.strides.size()));
  }
  check_extent(tensor, storage);
  pickle.charge(2 * sizeof(TorchTensor) + 4 * sizeof(int64_t) * tensor.sizes.size());
  tensors_.push_back(std::move(tensor));
  return add_object(pickle, static_cast<int64_t>(tensors_.size() - 1));
}

// ("storage", class, key, location, count), in the older form with a view of another storage.
PickleRef TorchWorld::load_persistent(Pickle& pickle, PickleRef id) {
  const std::vector<PickleRef>& parts = pickle[id].items;
  const bool right =
      pickle[id].kind == PickleKind::kTuple && (parts.size() == 5 || parts.size() == 6) &&
      pickle[parts[0]].kind == PickleKind::kText && pickle[parts[0]].text == "storage" &&
      pickle[parts[1]].kind == PickleKind::kGlobal && pickle[parts[2]].kind == PickleKind::kText;
  if (!right) throw bad_input("persistent id", "a torch storage", "something else");
  if (parts.size() == 6 && pickle[parts[5]].kind != PickleKind::kNone) {
    throw bad_input("storage", "one of its own", "a view of another storage")
        .hint("the file is of a PyTorch before 0.4: save it again");
  }
  TorchStorage storage;
  storage.key = pickle[parts[2]].text;
  const int64_t global = pickle[parts[1]].integer;
  if (global >= kFirstStorage && global < kFirstDtype) {
    storage.type = &kTypes[global - kFirstStorage];
  } else if (global != kUntypedStorage) {
    throw bad_input("storage", "a storage class", "another global");
  }
  storage.count = int_of(pickle[parts[4]], "storage size");
  checked_mul(storage.count, storage.element_bytes(), "storage size");
  const auto [place, added] = by_key_.emplace(storage.key, storages_.size());
  if (added) {
    pickle.charge(2 * sizeof(TorchStorage) + 80);  // and a node of the map
    storages_.push_back(storage);
  } else {
    const TorchStorage& known = storages_[place->second];
    if (known.type != storage.type || known.count != storage.count) {
      throw bad_input("storage " + quote(storage.key), "one type and size", "two");
    }
  }
  return add_object(pickle, ~static_cast<int64_t>(place->second));
}

const TorchTensor* TorchWorld::tensor_of(const PickleValue& value) const {
  if (value.kind != PickleKind::kObject || value.integer < 0) return nullptr;
  return &tensors_[static_cast<size_t>(value.integer)];
}

std::optional<size_t> TorchWorld::find_storage(std::string_view key) const {
  const auto found = by_key_.find(key);
  if (found == by_key_.end()) return std::nullopt;
  return found->second;
}

}  // namespace mainstem
