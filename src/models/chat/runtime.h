#pragma once

#include <cstdint>
#include <ctime>
#include <optional>
#include <string>
#include <vector>

#include "mainstem/error.h"
#include "models/chat/value.h"

namespace mainstem::chat {

/// What one rendering may use. A template comes from a file, so it may be hostile.
struct Limits {
  int64_t steps = 20'000'000;            ///< evaluated nodes, elements and 64-byte pieces of text
  int64_t bytes = int64_t{512} << 20;    ///< of all values made, whether they still live or not
  size_t text_bytes = size_t{64} << 20;  ///< of one text and of the output
  int recursion = 600;                   ///< nested expressions, statements and macro calls
  int depth = 100;                       ///< containers within containers
  int64_t range = 100'000;               ///< as jinja2's sandbox
};

/// Counts what a rendering uses and makes its values.
class Runtime {
 public:
  explicit Runtime(const Limits& limits, std::optional<std::time_t> now = {})
      : limits_(limits), now_(now) {}
  /// Namespaces and scopes may hold each other; this breaks the circles.
  ~Runtime();
  Runtime(const Runtime&) = delete;
  Runtime& operator=(const Runtime&) = delete;

  const Limits& limits() const { return limits_; }
  std::time_t now() const { return now_ ? *now_ : std::time(nullptr); }

  void step(int64_t count = 1);
  /// A text of this many bytes is copied or compared.
  void read(size_t bytes) { step(static_cast<int64_t>(bytes / 64)); }
  /// The same, character by character.
  void walk(size_t bytes) { step(static_cast<int64_t>(bytes / 8)); }
  /// A text is looked for in another: at worst every place is compared in full.
  void search(size_t text, size_t part);
  /// Before a text is made whose size is known.
  void expect_text(size_t bytes) const;
  /// The same for `count` pieces of `each` bytes.
  void expect_text(uint64_t count, uint64_t each) const;
  /// Before a list is made whose length is known.
  void expect_items(uint64_t count) const;

  Value text(std::string bytes, bool markup = false);
  Value list(Items items);
  Value tuple(Items items);
  Value iterator(Items items);
  Shared<Loop> loop(Items items);
  /// Of pairs; a later one with the same key replaces an earlier one.
  Value dict(std::vector<std::pair<Value, Value>> entries);
  Value make_namespace();
  Value method(const Value& self, std::string_view name,
               Value (*call)(Runtime&, const Value&, const Arguments&));
  void set_member(Namespace& space, std::string_view name, Value value);
  /// A scope that a macro keeps.
  void keep(const Shared<Scope>& scope);

  /// Counts nested calls of the evaluator.
  class Level {
   public:
    explicit Level(Runtime& runtime);
    ~Level() { --runtime_.level_; }
    Level(const Level&) = delete;
    Level& operator=(const Level&) = delete;

   private:
    Runtime& runtime_;
  };

 private:
  void charge(size_t bytes);
  int depth_of(const Items& items) const;

  Limits limits_;
  std::optional<std::time_t> now_;
  int64_t steps_ = 0, bytes_ = 0;
  int level_ = 0;
  std::vector<Shared<Namespace>> spaces_;
  std::vector<Shared<Scope>> scopes_;
};

/// Variables; the ones outside are seen through `outer`.
struct Scope {
  Shared<Scope> outer;
  std::map<std::string, Value, std::less<>> variables;

  /// Null where there is none.
  const Value* find(Runtime& runtime, std::string_view name) const;
  void set(std::string_view name, Value value);
};

}  // namespace mainstem::chat
