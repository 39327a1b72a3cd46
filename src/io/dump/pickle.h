#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "io/memory_budget.h"

namespace mainstem {

enum class PickleKind : uint8_t {
  kNone,
  kBool,
  kInt,
  kBigInt,  ///< beyond 64 bits: `text` holds its bytes, lowest first
  kFloat,
  kText,
  kBytes,
  kTuple,
  kList,
  kDict,     ///< `items` holds key, value, key, value, …
  kGlobal,   ///< something that may be named; `integer` is the world's number for it
  kObject,   ///< something of the world's; `integer` is its number
  kIgnored,  ///< a value that nothing is done with
};

using PickleRef = uint32_t;

struct PickleValue {
  PickleKind kind = PickleKind::kNone;
  int64_t integer = 0;
  double number = 0;
  std::string_view text;  ///< into the pickle
  std::vector<PickleRef> items;
};

class Pickle;

/// What the names in a pickle mean. A pickle can only ask for what its world offers: nothing else
/// exists, and nothing is ever executed.
class PickleWorld {
 public:
  PickleWorld() = default;
  virtual ~PickleWorld() = default;
  PickleWorld(const PickleWorld&) = delete;
  PickleWorld& operator=(const PickleWorld&) = delete;

  /// The number of a global; an Error that names it where it is not known.
  virtual int64_t find_global(std::string_view module, std::string_view name) = 0;
  /// What "calling" the global with the arguments gives.
  virtual PickleRef reduce(Pickle& pickle, int64_t global, PickleRef arguments) = 0;
  /// What a persistent id stands for.
  virtual PickleRef load_persistent(Pickle& pickle, PickleRef id) = 0;
};

/// Reads one pickle (Python's pickletools.py; protocols 2 to 5, and the older opcodes that those
/// still use) into values. Opcodes for classes, buffers and extensions are an Error. Values may be
/// shared and even hold themselves; whoever walks them has to mind that. Memory is charged to the
/// budget.
class Pickle {
 public:
  Pickle(std::span<const std::byte> bytes, PickleWorld& world, MemoryBudget& budget);

  /// The result. Called once.
  PickleRef load();
  /// How many bytes the pickle had.
  size_t size() const { return size_; }

  const PickleValue& operator[](PickleRef ref) const { return values_[ref]; }
  PickleRef add(PickleValue value);
  /// For what a world keeps beside the values.
  void charge(uint64_t bytes) { budget_.charge(bytes, "pickle"); }

 private:
  friend class PickleMachine;

  std::span<const std::byte> bytes_;
  PickleWorld& world_;
  MemoryBudget& budget_;
  std::deque<PickleValue> values_;
  size_t size_ = 0;
};

/// "a list", "a text", for messages.
std::string_view name(PickleKind kind);

}  // namespace mainstem
