#include "models/chat/runtime.h"

#include <algorithm>

#include "models/chat/operators.h"

namespace mainstem::chat {

Runtime::~Runtime() {
  for (const auto& scope : scopes_) scope->variables.clear();
  for (const auto& space : spaces_) space->members.clear();
}

void Runtime::step(int64_t count) {
  steps_ += count;
  if (steps_ > limits_.steps) {
    throw bad_input("chat template", "at most " + std::to_string(limits_.steps) + " steps", "more");
  }
}

void Runtime::search(size_t text, size_t part) {
  part = std::min(part, text);  // a longer one is not found at once
  step(static_cast<int64_t>(std::min(text / 64 * part + part, size_t{1} << 60)));
}

void Runtime::charge(size_t bytes) {
  bytes_ += static_cast<int64_t>(bytes);
  if (bytes_ > limits_.bytes) {
    throw bad_input("chat template",
                    "at most " + std::to_string(limits_.bytes) + " bytes of values", "more");
  }
}

void Runtime::expect_text(size_t bytes) const {
  if (bytes > limits_.text_bytes) {
    throw bad_input("chat template",
                    "texts of at most " + std::to_string(limits_.text_bytes) + " bytes",
                    "a longer one");
  }
}

void Runtime::expect_text(uint64_t count, uint64_t each) const {
  if (each != 0 && count > (uint64_t{limits_.text_bytes} + 1) / each) {
    expect_text(limits_.text_bytes + 1);
  }
}

void Runtime::expect_items(uint64_t count) const {
  const auto most = static_cast<uint64_t>(limits_.bytes - bytes_) / (sizeof(Value) + 40);
  if (count > most) {
    throw bad_input("chat template",
                    "at most " + std::to_string(limits_.bytes) + " bytes of values", "more");
  }
}

Value Runtime::text(std::string bytes, bool markup) {
  expect_text(bytes.size());
  charge(sizeof(Text) + 32 + bytes.size());
  read(bytes.size());
  return Value(Shared<const Text>(std::make_shared<Text>(Text{std::move(bytes), markup})));
}

int Runtime::depth_of(const Items& items) const {
  int deepest = 0;
  for (const Value& item : items) deepest = std::max(deepest, item.depth());
  if (deepest >= limits_.depth) {
    throw bad_input("chat template",
                    "at most " + std::to_string(limits_.depth) + " containers within each other",
                    "more");
  }
  return deepest + 1;
}

Value Runtime::list(Items items) {
  charge(sizeof(List) + 32 + items.size() * sizeof(Value));
  step(static_cast<int64_t>(items.size()));
  const int depth = depth_of(items);
  return Value(Shared<const List>(std::make_shared<List>(List{std::move(items), depth})));
}

Value Runtime::tuple(Items items) {
  charge(sizeof(Tuple) + 32 + items.size() * sizeof(Value));
  step(static_cast<int64_t>(items.size()));
  const int depth = depth_of(items);
  return Value(Shared<const Tuple>(std::make_shared<Tuple>(Tuple{std::move(items), depth})));
}

Value Runtime::iterator(Items items) {
  charge(sizeof(Iterator) + 32 + items.size() * sizeof(Value));
  step(static_cast<int64_t>(items.size()));
  auto made = std::make_shared<Iterator>();
  made->depth = depth_of(items);
  made->items = std::move(items);
  return Value(std::move(made));
}

Shared<Loop> Runtime::loop(Items items) {
  charge(sizeof(Loop) + 32 + items.size() * sizeof(Value));
  auto made = std::make_shared<Loop>();
  made->depth = depth_of(items);
  made->items = std::move(items);
  return made;
}

Value Runtime::dict(std::vector<std::pair<Value, Value>> entries) {
  auto made = std::make_shared<Dict>();
  int deepest = 0;
  for (auto& [key, value] : entries) {
    std::string hashed = hash_key(*this, key);
    charge(hashed.size() + 4 * sizeof(Value) + 64);
    step();
    deepest = std::max({deepest, key.depth(), value.depth()});
    const auto [place, added] = made->places.try_emplace(std::move(hashed), made->entries.size());
    if (added) {
      made->entries.emplace_back(std::move(key), std::move(value));
    } else {
      made->entries[place->second].second = std::move(value);
    }
  }
  if (deepest >= limits_.depth) {
    throw bad_input("chat template",
                    "at most " + std::to_string(limits_.depth) + " containers within each other",
                    "more");
  }
  made->depth = deepest + 1;
  return Value(Shared<const Dict>(std::move(made)));
}

Value Runtime::make_namespace() {
  charge(sizeof(Namespace) + 48);
  auto made = std::make_shared<Namespace>();
  spaces_.push_back(made);
  return Value(std::move(made));
}

Value Runtime::method(const Value& self, std::string_view name,
                      Value (*call)(Runtime&, const Value&, const Arguments&)) {
  charge(sizeof(Method) + 32);
  if (self.depth() >= limits_.depth) depth_of({self});
  return Value(Shared<const Method>(std::make_shared<Method>(Method{self, name, call})));
}

void Runtime::set_member(Namespace& space, std::string_view name, Value value) {
  if (value.depth() >= limits_.depth) depth_of({value});
  charge(name.size() + sizeof(Value) + 64);
  space.members.insert_or_assign(std::string(name), std::move(value));
}

void Runtime::keep(const Shared<Scope>& scope) {
  charge(sizeof(Scope) + 128);
  scopes_.push_back(scope);
}

Runtime::Level::Level(Runtime& runtime) : runtime_(runtime) {
  if (++runtime_.level_ > runtime_.limits_.recursion) {
    --runtime_.level_;
    throw bad_input("chat template",
                    "at most " + std::to_string(runtime_.limits_.recursion) +
                        " expressions, statements and macros within each other",
                    "more");
  }
  runtime_.step();
}

const Value* Scope::find(Runtime& runtime, std::string_view name) const {
  for (const Scope* scope = this; scope != nullptr; scope = scope->outer.get()) {
    runtime.step();
    if (const auto found = scope->variables.find(name); found != scope->variables.end()) {
      return &found->second;
    }
  }
  return nullptr;
}

void Scope::set(std::string_view name, Value value) {
  variables.insert_or_assign(std::string(name), std::move(value));
}

}  // namespace mainstem::chat
