#include "io/text.h"
#include "models/chat/interpreter.h"
#include "models/chat/python_text.h"

namespace mainstem::chat {

Value Interpreter::evaluate(const Expression& expression, const ScopePtr& scope) {
  const Runtime::Level level(runtime_);
  return std::visit([&](const auto& node) { return evaluate(node, scope); }, expression.node);
}

Value Interpreter::evaluate(const Literal& node, const ScopePtr&) { return node.value; }

Value Interpreter::evaluate(const Name& node, const ScopePtr& scope) {
  if (const Value* found = scope->find(runtime_, node.name)) return *found;
  if (const Function* function = find_function(node.name)) {
    // Functions live as long as the program.
    return Value(Shared<const Function>(Shared<void>(), function));
  }
  for (const char* other : {"lipsum", "cycler", "joiner"}) {
    if (node.name == other) {
      throw bad_input("chat template", "what is supported here", "the function " + quote(other));
    }
  }
  return Value::undefined(quote(node.name) + " is undefined");
}

Items Interpreter::all(const Expressions& expressions, const ScopePtr& scope) {
  Items items;
  for (const Expression& each : expressions) items.push_back(evaluate(each, scope));
  return items;
}

Value Interpreter::evaluate(const ListLiteral& node, const ScopePtr& scope) {
  return runtime_.list(all(node.items, scope));
}

Value Interpreter::evaluate(const TupleLiteral& node, const ScopePtr& scope) {
  return runtime_.tuple(all(node.items, scope));
}

Value Interpreter::evaluate(const DictLiteral& node, const ScopePtr& scope) {
  std::vector<std::pair<Value, Value>> entries;
  for (const auto& [key, value] : node.entries) {
    Value evaluated = evaluate(key, scope);
    entries.emplace_back(std::move(evaluated), evaluate(value, scope));
  }
  return runtime_.dict(std::move(entries));
}

Value Interpreter::evaluate(const Attribute& node, const ScopePtr& scope) {
  return get_attribute(runtime_, evaluate(*node.object, scope), node.name);
}

Value Interpreter::evaluate(const Index& node, const ScopePtr& scope) {
  const Value object = evaluate(*node.object, scope);
  return get_item(runtime_, object, evaluate(*node.index, scope));
}

Value Interpreter::optional(const ExpressionPtr& expression, const ScopePtr& scope) {
  return expression ? evaluate(*expression, scope) : Value();
}

Value Interpreter::evaluate(const Slice& node, const ScopePtr& scope) {
  const Value object = evaluate(*node.object, scope);
  const Value start = optional(node.start, scope), stop = optional(node.stop, scope);
  return slice(runtime_, object, start, stop, optional(node.step, scope));
}

Arguments Interpreter::evaluate_arguments(const CallArguments& arguments, const ScopePtr& scope) {
  Arguments result;
  result.positional = all(arguments.positional, scope);
  for (const auto& [name, value] : arguments.named) {
    result.named.emplace_back(name, evaluate(value, scope));
  }
  if (arguments.more_positional) {
    for (Value& item : elements(runtime_, evaluate(*arguments.more_positional, scope))) {
      result.positional.push_back(std::move(item));
    }
  }
  if (arguments.more_named) {
    const Value more = evaluate(*arguments.more_named, scope);
    if (!more.is(Kind::kDict)) refuse_value("** in a call", "a dict", more);
    for (const auto& [key, value] : more.at<const Dict>().entries) {
      if (!key.is(Kind::kString)) refuse_value("** in a call", "names as keys", key);
      result.named.emplace_back(std::string(key.text()), value);
      runtime_.step(static_cast<int64_t>(result.named.size()));
    }
  }
  return result;
}

Value Interpreter::evaluate(const Call& node, const ScopePtr& scope) {
  const Value callee = evaluate(*node.callee, scope);
  const Arguments arguments = evaluate_arguments(node.arguments, scope);
  switch (callee.kind()) {
    case Kind::kFunction:
      return callee.at<const Function>().call(runtime_, arguments);
    case Kind::kMethod: {
      const Method& method = callee.at<const Method>();
      return method.call(runtime_, method.self, arguments);
    }
    case Kind::kMacro:
      return call_macro(callee.at<const Macro>(), arguments);
    default:
      refuse_value("call", "a function, a method or a macro", callee);
  }
}

Value Interpreter::evaluate(const FilterCall& node, const ScopePtr& scope) {
  const Value input = evaluate(*node.input, scope);
  return node.function(runtime_, input, evaluate_arguments(node.arguments, scope));
}

Value Interpreter::evaluate(const TestCall& node, const ScopePtr& scope) {
  const Value input = evaluate(*node.input, scope);
  return Value(node.function(runtime_, input, evaluate_arguments(node.arguments, scope)));
}

Value Interpreter::evaluate(const Unary& node, const ScopePtr& scope) {
  const Value value = evaluate(*node.operand, scope);
  if (node.op == UnaryOp::kNot) return Value(!is_true(value));
  if (node.op == UnaryOp::kMinus) return negate(value);
  if (!value.is_number()) refuse_value("operator +", "a number", value);
  return value.is(Kind::kBool) ? Value(value.integer()) : value;
}

Value Interpreter::evaluate(const Binary& node, const ScopePtr& scope) {
  const Value left = evaluate(*node.left, scope);
  return apply(runtime_, node.op, left, evaluate(*node.right, scope));
}

Value Interpreter::evaluate(const Logic& node, const ScopePtr& scope) {
  Value left = evaluate(*node.left, scope);
  return is_true(left) == (node.op == LogicOp::kOr) ? left : evaluate(*node.right, scope);
}

Value Interpreter::evaluate(const Comparison& node, const ScopePtr& scope) {
  Value left = evaluate(*node.first, scope);
  for (const auto& [op, expression] : node.rest) {
    Value right = evaluate(expression, scope);
    if (!compare(runtime_, op, left, right)) return Value(false);
    left = std::move(right);
  }
  return Value(true);
}

Value Interpreter::evaluate(const Concatenation& node, const ScopePtr& scope) {
  std::string text;
  for (const Value& part : all(node.parts, scope)) {
    const std::string piece = to_text(runtime_, part);
    runtime_.expect_text(text.size() + piece.size());
    text += piece;
  }
  return runtime_.text(std::move(text));
}

Value Interpreter::evaluate(const Conditional& node, const ScopePtr& scope) {
  if (is_true(evaluate(*node.condition, scope))) return evaluate(*node.then, scope);
  if (node.otherwise) return evaluate(*node.otherwise, scope);
  return Value::undefined("the inline if-expression evaluated to false and has no else");
}

}  // namespace mainstem::chat
