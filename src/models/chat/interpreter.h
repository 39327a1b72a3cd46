#pragma once

#include <string>
#include <string_view>

#include "models/chat/arguments.h"
#include "models/chat/ast.h"
#include "models/chat/runtime.h"

namespace mainstem::chat {

/// Runs a template. One object for one rendering.
class Interpreter {
 public:
  /// `globals` holds the variables that the caller gives.
  Interpreter(Runtime& runtime, Shared<Scope> globals)
      : runtime_(runtime), globals_(std::move(globals)) {}
  std::string run(const Body& body);

 private:
  using ScopePtr = Shared<Scope>;
  enum class Flow { kOn, kBreak, kContinue };

  Flow execute(const Body& body, const ScopePtr& scope, std::string& out);
  Flow execute(const Statement& statement, const ScopePtr& scope, std::string& out);
  Flow execute(const TextStatement& node, const ScopePtr& scope, std::string& out);
  Flow execute(const OutputStatement& node, const ScopePtr& scope, std::string& out);
  Flow execute(const IfStatement& node, const ScopePtr& scope, std::string& out);
  Flow execute(const ForStatement& node, const ScopePtr& scope, std::string& out);
  Flow execute(const SetStatement& node, const ScopePtr& scope, std::string& out);
  Flow execute(const SetBlockStatement& node, const ScopePtr& scope, std::string& out);
  Flow execute(const MacroStatement& node, const ScopePtr& scope, std::string& out);
  Flow execute(const FilterStatement& node, const ScopePtr& scope, std::string& out);
  Flow execute(const ScopeStatement& node, const ScopePtr& scope, std::string& out);
  Flow execute(const BreakStatement& node, const ScopePtr& scope, std::string& out);
  Flow execute(const ContinueStatement& node, const ScopePtr& scope, std::string& out);

  Items loop_items(const ForStatement& node, const ScopePtr& scope);
  void assign(const Target& target, const Value& value, const ScopePtr& scope);
  void put(std::string_view text, std::string& out);
  /// The text of a block after its filters.
  Value filtered(const std::vector<FilterCall>& filters, std::string text, const ScopePtr& scope);
  Value call_macro(const Macro& macro, const Arguments& arguments);

  Value evaluate(const Expression& expression, const ScopePtr& scope);
  Value evaluate(const Literal& node, const ScopePtr& scope);
  Value evaluate(const Name& node, const ScopePtr& scope);
  Value evaluate(const ListLiteral& node, const ScopePtr& scope);
  Value evaluate(const TupleLiteral& node, const ScopePtr& scope);
  Value evaluate(const DictLiteral& node, const ScopePtr& scope);
  Value evaluate(const Attribute& node, const ScopePtr& scope);
  Value evaluate(const Index& node, const ScopePtr& scope);
  Value evaluate(const Slice& node, const ScopePtr& scope);
  Value evaluate(const Call& node, const ScopePtr& scope);
  Value evaluate(const FilterCall& node, const ScopePtr& scope);
  Value evaluate(const TestCall& node, const ScopePtr& scope);
  Value evaluate(const Unary& node, const ScopePtr& scope);
  Value evaluate(const Binary& node, const ScopePtr& scope);
  Value evaluate(const Logic& node, const ScopePtr& scope);
  Value evaluate(const Comparison& node, const ScopePtr& scope);
  Value evaluate(const Concatenation& node, const ScopePtr& scope);
  Value evaluate(const Conditional& node, const ScopePtr& scope);

  Value optional(const ExpressionPtr& expression, const ScopePtr& scope);
  Items all(const Expressions& expressions, const ScopePtr& scope);
  Arguments evaluate_arguments(const CallArguments& arguments, const ScopePtr& scope);

  Runtime& runtime_;
  ScopePtr globals_;
};

/// object.name and object[index] as jinja2's sandbox looks them up; undefined where there is none.
Value get_attribute(Runtime& runtime, const Value& object, std::string_view name);
Value get_item(Runtime& runtime, const Value& object, const Value& index);

/// Functions that every template sees: range, dict, namespace, raise_exception, strftime_now.
/// Null where there is none of that name.
const Function* find_function(std::string_view name);

}  // namespace mainstem::chat
