#include "io/text.h"
#include "models/chat/interpreter.h"
#include "models/chat/python_text.h"

namespace mainstem::chat {
namespace {

Shared<Scope> inside(const Shared<Scope>& outer) {
  auto scope = std::make_shared<Scope>();
  scope->outer = outer;
  return scope;
}

}  // namespace

std::string Interpreter::run(const Body& body) {
  std::string out;
  execute(body, inside(globals_), out);
  return out;
}

void Interpreter::put(std::string_view text, std::string& out) {
  runtime_.read(text.size());
  runtime_.expect_text(out.size() + text.size());
  out += text;
}

Interpreter::Flow Interpreter::execute(const Body& body, const ScopePtr& scope, std::string& out) {
  for (const Statement& statement : body) {
    if (const Flow flow = execute(statement, scope, out); flow != Flow::kOn) return flow;
  }
  return Flow::kOn;
}

Interpreter::Flow Interpreter::execute(const Statement& statement, const ScopePtr& scope,
                                       std::string& out) {
  const Runtime::Level level(runtime_);
  try {
    return std::visit([&](const auto& node) { return execute(node, scope, out); }, statement.node);
  } catch (Error& error) {
    // The innermost statement says where it is.
    if (error.context().empty()) error.in("line " + std::to_string(statement.line));
    throw;
  }
}

Interpreter::Flow Interpreter::execute(const TextStatement& node, const ScopePtr&,
                                       std::string& out) {
  put(node.text, out);
  return Flow::kOn;
}

Interpreter::Flow Interpreter::execute(const OutputStatement& node, const ScopePtr& scope,
                                       std::string& out) {
  const Value value = evaluate(node.value, scope);
  put(value.is(Kind::kString) ? value.text() : to_text(runtime_, value), out);
  return Flow::kOn;
}

Interpreter::Flow Interpreter::execute(const IfStatement& node, const ScopePtr& scope,
                                       std::string& out) {
  for (const auto& [condition, body] : node.branches) {
    if (is_true(evaluate(condition, scope))) return execute(body, scope, out);
  }
  return execute(node.otherwise, scope, out);
}

Items Interpreter::loop_items(const ForStatement& node, const ScopePtr& scope) {
  Items items = elements(runtime_, evaluate(node.iterable, scope));
  if (!node.condition) return items;
  Items kept;
  for (Value& item : items) {
    const ScopePtr local = inside(scope);
    assign(node.target, item, local);
    if (is_true(evaluate(*node.condition, local))) kept.push_back(std::move(item));
  }
  return kept;
}

Interpreter::Flow Interpreter::execute(const ForStatement& node, const ScopePtr& scope,
                                       std::string& out) {
  const Shared<Loop> loop = runtime_.loop(loop_items(node, scope));
  const Value loop_value(loop);
  // As jinja2 has it: `else` is taken too where every round was left early.
  bool whole_round = false;
  for (size_t i = 0; i < loop->items.size(); ++i) {
    runtime_.step();
    loop->index = i;
    const ScopePtr local = inside(scope);
    assign(node.target, loop->items[i], local);
    local->set("loop", loop_value);
    const Flow flow = execute(node.body, local, out);
    if (flow == Flow::kBreak) break;
    whole_round = whole_round || flow == Flow::kOn;
  }
  return whole_round ? Flow::kOn : execute(node.otherwise, inside(scope), out);
}

void Interpreter::assign(const Target& target, const Value& value, const ScopePtr& scope) {
  if (target.unpacks) {
    const Items items = elements(runtime_, value);
    if (items.size() != target.parts.size()) {
      throw bad_input("unpacking", std::to_string(target.parts.size()) + " values",
                      std::to_string(items.size()));
    }
    for (size_t i = 0; i < items.size(); ++i) assign(target.parts[i], items[i], scope);
    return;
  }
  if (target.member.empty()) return scope->set(target.name, value);
  const Value* space = scope->find(runtime_, target.name);
  if (space == nullptr || !space->is(Kind::kNamespace)) {
    throw bad_input("{% set " + target.name + "." + target.member + " %}", "a namespace",
                    space == nullptr ? "nothing of that name" : std::string(type_name(*space)));
  }
  if (target.member.starts_with('_')) {
    throw bad_input("member of a namespace", "a name without _ before it", quote(target.member));
  }
  runtime_.set_member(space->at<Namespace>(), target.member, value);
}

Interpreter::Flow Interpreter::execute(const SetStatement& node, const ScopePtr& scope,
                                       std::string&) {
  assign(node.target, evaluate(node.value, scope), scope);
  return Flow::kOn;
}

Value Interpreter::filtered(const std::vector<FilterCall>& filters, std::string text,
                            const ScopePtr& scope) {
  Value value = runtime_.text(std::move(text));
  for (const FilterCall& filter : filters) {
    value = filter.function(runtime_, value, evaluate_arguments(filter.arguments, scope));
  }
  return value;
}

Interpreter::Flow Interpreter::execute(const SetBlockStatement& node, const ScopePtr& scope,
                                       std::string&) {
  std::string text;
  const Flow flow = execute(node.body, inside(scope), text);
  if (flow != Flow::kOn) return flow;
  assign(node.target, filtered(node.filters, std::move(text), scope), scope);
  return Flow::kOn;
}

Interpreter::Flow Interpreter::execute(const MacroStatement& node, const ScopePtr& scope,
                                       std::string&) {
  runtime_.keep(scope);
  scope->set(node.name, Value(Shared<const Macro>(std::make_shared<Macro>(Macro{&node, scope}))));
  return Flow::kOn;
}

Interpreter::Flow Interpreter::execute(const FilterStatement& node, const ScopePtr& scope,
                                       std::string& out) {
  std::string text;
  const Flow flow = execute(node.body, inside(scope), text);
  if (flow != Flow::kOn) return flow;
  const Value value = filtered(node.filters, std::move(text), scope);
  if (!value.is(Kind::kString)) refuse_value("{% filter %}", "a filter that gives text", value);
  put(value.text(), out);
  return Flow::kOn;
}

Interpreter::Flow Interpreter::execute(const ScopeStatement& node, const ScopePtr& scope,
                                       std::string& out) {
  const ScopePtr local = inside(scope);
  for (const auto& [target, expression] : node.variables) {
    assign(target, evaluate(expression, scope), local);
  }
  return execute(node.body, local, out);
}

Interpreter::Flow Interpreter::execute(const BreakStatement&, const ScopePtr&, std::string&) {
  return Flow::kBreak;
}

Interpreter::Flow Interpreter::execute(const ContinueStatement&, const ScopePtr&, std::string&) {
  return Flow::kContinue;
}

Value Interpreter::call_macro(const Macro& macro, const Arguments& arguments) {
  const MacroStatement& node = *macro.statement;
  const std::string what = "macro '" + node.name + "'";
  const ScopePtr local = inside(macro.scope);
  std::vector<std::pair<Value, Value>> more_named;
  std::vector<const Value*> given(node.parameters.size());
  for (size_t i = 0; i < given.size() && i < arguments.positional.size(); ++i) {
    given[i] = &arguments.positional[i];
  }
  for (const auto& [name, value] : arguments.named) {
    size_t place = 0;
    while (place < given.size() && node.parameters[place].first != name) ++place;
    if (place < given.size() && given[place] == nullptr) {
      given[place] = &value;
    } else if (node.takes_kwargs) {
      more_named.emplace_back(runtime_.text(name), value);
    } else {
      throw bad_input(what, "arguments that it has, each once", quote(name));
    }
  }
  Items more;
  for (size_t i = given.size(); i < arguments.positional.size(); ++i) {
    more.push_back(arguments.positional[i]);
  }
  if (!more.empty() && !node.takes_varargs) {
    throw bad_input(what, "at most " + std::to_string(given.size()) + " arguments",
                    std::to_string(arguments.positional.size()));
  }
  for (size_t i = 0; i < given.size(); ++i) {
    const auto& [name, fallback] = node.parameters[i];
    if (given[i] != nullptr) {
      local->set(name, *given[i]);
    } else {
      local->set(name, fallback ? evaluate(*fallback, local)
                                : Value::undefined("parameter '" + name + "' was not provided"));
    }
  }
  if (node.takes_varargs) local->set("varargs", runtime_.tuple(std::move(more)));
  if (node.takes_kwargs) local->set("kwargs", runtime_.dict(std::move(more_named)));
  std::string text;
  execute(node.body, local, text);
  return runtime_.text(std::move(text));
}

}  // namespace mainstem::chat
