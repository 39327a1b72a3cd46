#include "io/dump/pickle.h"

#include <charconv>
#include <cstring>
#include <limits>
#include <unordered_map>
#include <utility>

#include "base/byte_reader.h"
#include "io/text.h"
#include "mainstem/error.h"

namespace mainstem {

// One run of the opcodes: a stack, the marks in it, and the memo.
class PickleMachine {
 public:
  explicit PickleMachine(Pickle& pickle) : pickle_(pickle), reader_(pickle.bytes_) {}

  PickleRef run() {
    size_t at = 0;
    try {
      for (;;) {
        at = reader_.offset();
        const auto opcode = reader_.read<char>("opcode");
        if (opcode == '.') break;
        if (!step_value(opcode) && !step_structure(opcode) && !step_memo(opcode) &&
            !step_object(opcode)) {
          throw bad_input("pickle opcode", "one that builds plain data", quote({&opcode, 1}));
        }
      }
    } catch (Error& error) {
      error.in("byte " + std::to_string(at));
      throw;
    }
    if (stack_.size() != 1 || !marks_.empty()) {
      throw bad_input("pickle", "one value at its end", std::to_string(stack_.size()));
    }
    return stack_[0];
  }
  size_t offset() const { return reader_.offset(); }

 private:
  void push(PickleRef ref) {
    // A vector that grows holds its old and new memory at once.
    pickle_.budget_.charge(3 * sizeof(PickleRef), "pickle");
    stack_.push_back(ref);
  }
  bool push_value(PickleValue value) {
    push(pickle_.add(std::move(value)));
    return true;
  }
  bool push_int(int64_t value) {
    return push_value({.kind = PickleKind::kInt, .integer = value, .text = {}, .items = {}});
  }
  bool push_text(PickleKind kind, std::string_view text) {
    return push_value({.kind = kind, .text = text, .items = {}});
  }
  bool push_items(PickleKind kind, std::vector<PickleRef> items) {
    return push_value({.kind = kind, .text = {}, .items = std::move(items)});
  }
  size_t floor() const { return marks_.empty() ? 0 : marks_.back(); }
  PickleRef pop() {
    if (stack_.size() <= floor()) throw bad_input("pickle stack", "a value", "none");
    const PickleRef top = stack_.back();
    stack_.pop_back();
    return top;
  }
  PickleRef top() const {
    if (stack_.size() <= floor()) throw bad_input("pickle stack", "a value", "none");
    return stack_.back();
  }
  std::vector<PickleRef> pop_count(size_t count) {
    if (stack_.size() - floor() < count) throw bad_input("pickle stack", "more values", "fewer");
    return pop_from(stack_.size() - count);
  }
  std::vector<PickleRef> pop_to_mark() {
    if (marks_.empty()) throw bad_input("pickle stack", "a mark", "none");
    const size_t begin = marks_.back();
    marks_.pop_back();
    return pop_from(begin);
  }
  std::vector<PickleRef> pop_from(size_t begin) {
    const auto first = stack_.begin() + static_cast<std::ptrdiff_t>(begin);
    std::vector<PickleRef> result(first, stack_.end());
    pickle_.budget_.charge(result.size() * sizeof(PickleRef), "pickle");
    stack_.erase(first, stack_.end());
    return result;
  }
  PickleValue& top_of_kind(PickleKind kind) {
    PickleValue& value = pickle_.values_[top()];
    if (value.kind != kind) {
      throw bad_input("pickle", std::string(name(kind)), std::string(name(value.kind)));
    }
    return value;
  }
  std::string_view take_line() {
    std::string_view rest(reinterpret_cast<const char*>(pickle_.bytes_.data()) + reader_.offset(),
                          reader_.remaining());
    const size_t end = rest.find('\n');
    if (end == rest.npos) throw bad_input("pickle", "a line", "the end of the pickle");
    reader_.take(end + 1, "line");
    return rest.substr(0, end);
  }
  std::string_view take_counted(uint64_t count) { return reader_.take_text(count, "text"); }

  bool step_value(char opcode);
  bool step_structure(char opcode);
  bool step_memo(char opcode);
  bool step_object(char opcode);
  bool push_long(std::string_view bytes);
  bool push_decimal(std::string_view line);
  bool push_double();
  void remember(uint32_t key);
  bool recall(uint32_t key);
  bool push_global(std::string_view module, std::string_view name);
  void append(PickleKind kind, std::vector<PickleRef> items);

  Pickle& pickle_;
  ByteReader reader_;
  std::vector<PickleRef> stack_;
  std::vector<size_t> marks_;
  std::unordered_map<uint32_t, PickleRef> memo_;
};

bool PickleMachine::step_value(char opcode) {
  switch (opcode) {
    case 'N':  // NONE
      return push_value({});
    case '\x88':  // NEWTRUE
    case '\x89':  // NEWFALSE
      return push_value(
          {.kind = PickleKind::kBool, .integer = opcode == '\x88', .text = {}, .items = {}});
    case 'J':  // BININT
      return push_int(reader_.read<int32_t>("integer"));
    case 'K':  // BININT1
      return push_int(reader_.read<uint8_t>("integer"));
    case 'M':  // BININT2
      return push_int(reader_.read<uint16_t>("integer"));
    case '\x8a':  // LONG1
      return push_long(take_counted(reader_.read<uint8_t>("length")));
    case '\x8b':  // LONG4
      return push_long(take_counted(reader_.read<uint32_t>("length")));
    case 'I':  // INT
    case 'L':  // LONG
      return push_decimal(take_line());
    case 'G':  // BINFLOAT
      return push_double();
    case 'X':  // BINUNICODE
      return push_text(PickleKind::kText, take_counted(reader_.read<uint32_t>("length")));
    case '\x8c':  // SHORT_BINUNICODE
      return push_text(PickleKind::kText, take_counted(reader_.read<uint8_t>("length")));
    case '\x8d':  // BINUNICODE8
      return push_text(PickleKind::kText, take_counted(reader_.read<uint64_t>("length")));
    case 'U':  // SHORT_BINSTRING, a text of Python 2
      return push_text(PickleKind::kText, take_counted(reader_.read<uint8_t>("length")));
    case 'T':  // BINSTRING
      return push_text(PickleKind::kText, take_counted(reader_.read<uint32_t>("length")));
    case 'C':  // SHORT_BINBYTES
      return push_text(PickleKind::kBytes, take_counted(reader_.read<uint8_t>("length")));
    case 'B':  // BINBYTES
      return push_text(PickleKind::kBytes, take_counted(reader_.read<uint32_t>("length")));
    case '\x8e':  // BINBYTES8
      return push_text(PickleKind::kBytes, take_counted(reader_.read<uint64_t>("length")));
    default:
      return false;
  }
}

bool PickleMachine::step_structure(char opcode) {
  switch (opcode) {
    case '(':  // MARK
      pickle_.budget_.charge(3 * sizeof(size_t), "pickle");
      marks_.push_back(stack_.size());
      return true;
    case '0':  // POP, of a mark too
      if (!marks_.empty() && stack_.size() == marks_.back()) {
        marks_.pop_back();
      } else {
        pop();
      }
      return true;
    case '1':  // POP_MARK
      pop_to_mark();
      return true;
    case '2':  // DUP
      push(top());
      return true;
    case ')':  // EMPTY_TUPLE
      return push_items(PickleKind::kTuple, {});
    case '\x85':  // TUPLE1
    case '\x86':  // TUPLE2
    case '\x87':  // TUPLE3
      return push_items(PickleKind::kTuple, pop_count(static_cast<uint8_t>(opcode) - 0x84u));
    case 't':  // TUPLE
      return push_items(PickleKind::kTuple, pop_to_mark());
    case ']':  // EMPTY_LIST
      return push_items(PickleKind::kList, {});
    case 'l':  // LIST
      return push_items(PickleKind::kList, pop_to_mark());
    case '}':  // EMPTY_DICT
      return push_items(PickleKind::kDict, {});
    case 'a':  // APPEND
      append(PickleKind::kList, pop_count(1));
      return true;
    case 'e':  // APPENDS
      append(PickleKind::kList, pop_to_mark());
      return true;
    case 's':  // SETITEM
      append(PickleKind::kDict, pop_count(2));
      return true;
    case 'u':  // SETITEMS
      append(PickleKind::kDict, pop_to_mark());
      return true;
    default:
      return false;
  }
}

bool PickleMachine::step_memo(char opcode) {
  switch (opcode) {
    case 'q':  // BINPUT
      remember(reader_.read<uint8_t>("memo key"));
      return true;
    case 'r':  // LONG_BINPUT
      remember(reader_.read<uint32_t>("memo key"));
      return true;
    case '\x94':  // MEMOIZE
      remember(static_cast<uint32_t>(memo_.size()));
      return true;
    case 'h':  // BINGET
      return recall(reader_.read<uint8_t>("memo key"));
    case 'j':  // LONG_BINGET
      return recall(reader_.read<uint32_t>("memo key"));
    default:
      return false;
  }
}

bool PickleMachine::step_object(char opcode) {
  switch (opcode) {
    case '\x80': {  // PROTO
      const auto protocol = reader_.read<uint8_t>("protocol");
      if (protocol > 5) throw bad_input("pickle protocol", "2 to 5", std::to_string(protocol));
      return true;
    }
    case '\x95':  // FRAME: only helps those who read from a stream
      reader_.read<uint64_t>("frame length");
      return true;
    case 'c': {  // GLOBAL
      const std::string_view module = take_line();
      return push_global(module, take_line());
    }
    case '\x93': {  // STACK_GLOBAL
      const auto names = pop_count(2);
      const PickleValue &module = pickle_[names[0]], &name = pickle_[names[1]];
      if (module.kind != PickleKind::kText || name.kind != PickleKind::kText) {
        throw bad_input("pickle global", "two texts", "other values");
      }
      return push_global(module.text, name.text);
    }
    case 'R':     // REDUCE
    case '\x81':  // NEWOBJ
    {
      const auto parts = pop_count(2);
      const PickleValue& callable = pickle_[parts[0]];
      if (callable.kind != PickleKind::kGlobal || pickle_[parts[1]].kind != PickleKind::kTuple) {
        throw bad_input("pickle call", "a global and a tuple", std::string(name(callable.kind)));
      }
      push(pickle_.world_.reduce(pickle_, callable.integer, parts[1]));
      return true;
    }
    case 'b':  // BUILD: attributes of the object, which say nothing about its values
      pop();
      if (pickle_[top()].kind != PickleKind::kDict && pickle_[top()].kind != PickleKind::kObject) {
        throw bad_input("pickle attributes", "those of a dict or tensor",
                        std::string(name(pickle_[top()].kind)));
      }
      return true;
    case 'Q':  // BINPERSID
      push(pickle_.world_.load_persistent(pickle_, pop()));
      return true;
    default:
      return false;
  }
}

bool PickleMachine::push_long(std::string_view bytes) {
  if (bytes.size() > sizeof(int64_t)) return push_text(PickleKind::kBigInt, bytes);
  uint64_t value = 0;
  for (size_t i = 0; i < bytes.size(); ++i) {
    value |= uint64_t{static_cast<uint8_t>(bytes[i])} << (8 * i);
  }
  const bool negative = !bytes.empty() && (static_cast<uint8_t>(bytes.back()) & 0x80u) != 0;
  if (negative && bytes.size() < sizeof(int64_t)) value |= ~uint64_t{0} << (8 * bytes.size());
  return push_int(static_cast<int64_t>(value));
}

bool PickleMachine::push_decimal(std::string_view line) {
  if (line == "00" || line == "01") {  // how protocol 0 and 1 wrote booleans
    return push_value(
        {.kind = PickleKind::kBool, .integer = line == "01", .text = {}, .items = {}});
  }
  if (line.ends_with('L')) line.remove_suffix(1);
  int64_t value = 0;
  const auto [end, error] = std::from_chars(line.data(), line.data() + line.size(), value);
  if (error != std::errc() || end != line.data() + line.size()) {
    throw bad_input("pickle integer", "a decimal of 64 bits", quote(line));
  }
  return push_int(value);
}

bool PickleMachine::push_double() {
  const auto bytes = reader_.take(sizeof(double), "number");
  uint64_t bits = 0;
  for (const std::byte b : bytes) bits = bits << 8 | std::to_integer<uint64_t>(b);
  PickleValue value{.kind = PickleKind::kFloat, .text = {}, .items = {}};
  std::memcpy(&value.number, &bits, sizeof(double));
  return push_value(std::move(value));
}

void PickleMachine::remember(uint32_t key) {
  // A node of the table, and its share of buckets.
  pickle_.budget_.charge(48, "pickle memo");
  memo_[key] = top();
}

bool PickleMachine::recall(uint32_t key) {
  const auto found = memo_.find(key);
  if (found == memo_.end()) {
    throw bad_input("pickle memo", "a value that was put there", "key " + std::to_string(key));
  }
  push(found->second);
  return true;
}

bool PickleMachine::push_global(std::string_view module, std::string_view name) {
  return push_value({.kind = PickleKind::kGlobal,
                     .integer = pickle_.world_.find_global(module, name),
                     .text = {},
                     .items = {}});
}

void PickleMachine::append(PickleKind kind, std::vector<PickleRef> items) {
  if (kind == PickleKind::kDict && items.size() % 2 != 0) {
    throw bad_input("pickle dict", "keys and values", "a key without a value");
  }
  auto& target = top_of_kind(kind).items;
  pickle_.budget_.charge(3 * items.size() * sizeof(PickleRef), "pickle");
  target.insert(target.end(), items.begin(), items.end());
}

Pickle::Pickle(std::span<const std::byte> bytes, PickleWorld& world, MemoryBudget& budget)
    : bytes_(bytes), world_(world), budget_(budget) {}

PickleRef Pickle::load() {
  PickleMachine machine(*this);
  const PickleRef result = machine.run();
  size_ = machine.offset();
  return result;
}

PickleRef Pickle::add(PickleValue value) {
  // And a share of the table of the deque's blocks, and of what malloc adds to each.
  budget_.charge(sizeof(PickleValue) + 16, "pickle");
  if (values_.size() >= std::numeric_limits<PickleRef>::max()) {
    throw bad_input("pickle", "fewer than 2^32 values", "more");
  }
  values_.push_back(std::move(value));
  return static_cast<PickleRef>(values_.size() - 1);
}

std::string_view name(PickleKind kind) {
  switch (kind) {
    case PickleKind::kNone:
      return "None";
    case PickleKind::kBool:
      return "a bool";
    case PickleKind::kInt:
    case PickleKind::kBigInt:
      return "an int";
    case PickleKind::kFloat:
      return "a float";
    case PickleKind::kText:
      return "a text";
    case PickleKind::kBytes:
      return "bytes";
    case PickleKind::kTuple:
      return "a tuple";
    case PickleKind::kList:
      return "a list";
    case PickleKind::kDict:
      return "a dict";
    case PickleKind::kGlobal:
      return "a global";
    case PickleKind::kObject:
      return "a tensor or storage";
    case PickleKind::kIgnored:
      return "another value";
  }
  return "a value";
}

}  // namespace mainstem
