#include "io/dump/torch_walk.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "io/text.h"
#include "mainstem/error.h"

namespace mainstem {
namespace {

constexpr size_t kMaxDepth = 64;
// How often the same containers may be met again, in proportion to the values there are.
constexpr uint64_t kVisitsPerValue = 16;

class TorchWalk {
 public:
  TorchWalk(const Pickle& pickle, const TorchWorld& world, MemoryBudget& budget,
            DumpContent& content)
      : pickle_(pickle),
        world_(world),
        budget_(budget),
        content_(content),
        visits_left_(1000 + kVisitsPerValue * pickle.size()) {}

  void visit(PickleRef ref, const std::string& name) {
    count_visits(1);
    const PickleValue& value = pickle_[ref];
    if (const TorchTensor* tensor = world_.tensor_of(value)) {
      add_tensor(*tensor, name);
      return;
    }
    switch (value.kind) {
      case PickleKind::kDict:
        enter(ref, [&] { visit_dict(value, name); });
        break;
      case PickleKind::kList:
      case PickleKind::kTuple:
        if (auto numbers = whole_numbers(value)) {
          add(name, numbers->dtype(), numbers->shape(), {.tensor = nullptr, .numbers = *numbers});
          break;
        }
        enter(ref, [&] {
          for (size_t i = 0; i < value.items.size(); ++i) {
            visit_below(value.items[i], name, std::to_string(i));
          }
        });
        break;
      default:
        break;
    }
  }

  std::vector<TorchLeaf> take_leaves() { return std::move(leaves_); }

 private:
  // Names are made only for what may be or hold a tensor, and their memory is charged, so that long
  // keys over many values cost no time either.
  void visit_below(PickleRef ref, const std::string& name, const std::string& part) {
    switch (pickle_[ref].kind) {
      case PickleKind::kDict:
      case PickleKind::kList:
      case PickleKind::kTuple:
      case PickleKind::kObject: {
        const std::string full = name.empty() ? part : name + "." + part;
        charge_text(full);
        visit(ref, full);
        break;
      }
      default:
        count_visits(1);
    }
  }
  void count_visits(uint64_t count) {
    if (count > visits_left_) {
      throw bad_input("pickle", "containers that are used a few times each",
                      "some that are used again and again");
    }
    visits_left_ -= count;
  }
  template <typename Body>
  void enter(PickleRef ref, Body&& body) {
    if (std::find(path_.begin(), path_.end(), ref) != path_.end()) {
      throw bad_input("pickle", "a tree of containers", "one that holds itself");
    }
    if (path_.size() == kMaxDepth) {
      throw bad_input("pickle", "a depth of at most " + std::to_string(kMaxDepth), "more");
    }
    path_.push_back(ref);
    body();
    path_.pop_back();
  }
  void visit_dict(const PickleValue& dict, const std::string& name) {
    for (size_t i = 0; i < dict.items.size(); i += 2) {
      const PickleValue& key = pickle_[dict.items[i]];
      std::string part;
      if (key.kind == PickleKind::kInt) {
        part = std::to_string(key.integer);
      } else if (key.kind == PickleKind::kText) {
        if (valid_utf8_prefix(key.text) != key.text.size()) {
          throw bad_input("dict key", "valid UTF-8", quote(key.text));
        }
        part = key.text;
      } else {
        charge_text(name);
        content_.left_out.push_back("an entry of " + quote(name) + " whose key is " +
                                    std::string(mainstem::name(key.kind)));
        continue;
      }
      visit_below(dict.items[i + 1], name, part);
    }
  }
  bool append_whole_numbers(const PickleValue& list, std::vector<int64_t>& out) {
    count_visits(list.items.size());
    budget_.charge(3 * list.items.size() * sizeof(int64_t), "lists of numbers");
    for (const PickleRef item : list.items) {
      if (pickle_[item].kind != PickleKind::kInt) return false;
      out.push_back(pickle_[item].integer);
    }
    return true;
  }
  // A list of integers, or of such lists of one length; nothing else.
  std::optional<Tensor> whole_numbers(const PickleValue& list) {
    if (list.items.empty()) return std::nullopt;
    const PickleValue& first = pickle_[list.items[0]];
    const bool nested = first.kind == PickleKind::kList;
    if (!nested && first.kind != PickleKind::kInt) return std::nullopt;
    const size_t columns = nested ? first.items.size() : 1;
    if (columns == 0) return std::nullopt;
    std::vector<int64_t> values;
    if (!nested && !append_whole_numbers(list, values)) return std::nullopt;
    for (const PickleRef item : nested ? list.items : std::vector<PickleRef>()) {
      const PickleValue& row = pickle_[item];
      if (row.kind != PickleKind::kList || row.items.size() != columns) return std::nullopt;
      if (!append_whole_numbers(row, values)) return std::nullopt;
    }
    const auto rows = static_cast<int64_t>(list.items.size());
    return Tensor::from_i64(nested ? Shape{rows, static_cast<int64_t>(columns)} : Shape{rows},
                            values);
  }
  void charge_text(const std::string& name) { budget_.charge(2 * name.size() + 128, "names"); }
  void add_tensor(const TorchTensor& tensor, const std::string& name) {
    if (!tensor.type->dtype) {
      charge_text(name);
      content_.left_out.push_back(quote(name) + " has the type " +
                                  std::string(tensor.type->dtype_name) + ", which is not read");
      return;
    }
    add(name, *tensor.type->dtype, tensor.sizes, {.tensor = &tensor, .numbers = {}});
  }
  void add(const std::string& name, DType dtype, const Shape& shape, TorchLeaf leaf) {
    charge_text(name);
    budget_.charge(2 * (sizeof(DumpTensor) + sizeof(TorchLeaf) + shape.size() * sizeof(int64_t)),
                   "tensors");
    DumpTensor& tensor = content_.tensors.emplace_back();
    tensor.name = name;
    tensor.dtype = dtype;
    tensor.shape = shape;
    tensor.id = leaves_.size();
    leaves_.push_back(std::move(leaf));
  }

  const Pickle& pickle_;
  const TorchWorld& world_;
  MemoryBudget& budget_;
  DumpContent& content_;
  uint64_t visits_left_;
  std::vector<PickleRef> path_;
  std::vector<TorchLeaf> leaves_;
};

}  // namespace

std::vector<TorchLeaf> collect_tensors(const Pickle& pickle, const TorchWorld& world,
                                       PickleRef root, const std::string& stem,
                                       MemoryBudget& budget, DumpContent& content) {
  TorchWalk walk(pickle, world, budget, content);
  const PickleValue& value = pickle[root];
  const bool container = value.kind == PickleKind::kDict || value.kind == PickleKind::kList ||
                         value.kind == PickleKind::kTuple;
  walk.visit(root, container ? std::string() : stem);
  return walk.take_leaves();
}

}  // namespace mainstem
