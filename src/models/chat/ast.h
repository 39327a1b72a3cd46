#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "models/chat/operators.h"
#include "models/chat/value.h"

// A template after parsing: expressions and statements as plain data.

namespace mainstem::chat {

struct Expression;
using ExpressionPtr = std::unique_ptr<Expression>;
using Expressions = std::vector<Expression>;
struct NamedExpression;
struct DictEntry;
struct Comparand;
struct Statement;
using Body = std::vector<Statement>;

struct CallArguments {
  Expressions positional;
  std::vector<NamedExpression> named;
  ExpressionPtr more_positional, more_named;  ///< *args and **kwargs, or null
};

using FilterFunction = Value (*)(Runtime&, const Value&, const Arguments&);
using TestFunction = bool (*)(Runtime&, const Value&, const Arguments&);

struct Literal {
  Value value;
};
struct Name {
  std::string name;
};
struct ListLiteral {
  Expressions items;
};
struct TupleLiteral {
  Expressions items;
};
struct DictLiteral {
  std::vector<DictEntry> entries;
};
struct Attribute {
  ExpressionPtr object;
  std::string name;
};
struct Index {
  ExpressionPtr object, index;
};
struct Slice {
  ExpressionPtr object, start, stop, step;  ///< all but the object may be null
};
struct Call {
  ExpressionPtr callee;
  CallArguments arguments;
};
struct FilterCall {
  ExpressionPtr input;  ///< null: the text of the block that the filter stands at
  std::string name;
  FilterFunction function;
  CallArguments arguments;
};
struct TestCall {
  ExpressionPtr input;
  std::string name;
  TestFunction function;
  CallArguments arguments;
};
enum class UnaryOp { kNot, kMinus, kPlus };
struct Unary {
  UnaryOp op;
  ExpressionPtr operand;
};
struct Binary {
  BinaryOp op;
  ExpressionPtr left, right;
};
enum class LogicOp { kAnd, kOr };
struct Logic {
  LogicOp op;
  ExpressionPtr left, right;
};
/// a < b < c
struct Comparison {
  ExpressionPtr first;
  std::vector<Comparand> rest;
};
struct Concatenation {
  Expressions parts;
};
struct Conditional {
  ExpressionPtr condition, then, otherwise;  ///< the last may be null
};

struct Expression {
  std::variant<Literal, Name, ListLiteral, TupleLiteral, DictLiteral, Attribute, Index, Slice, Call,
               FilterCall, TestCall, Unary, Binary, Logic, Comparison, Concatenation, Conditional>
      node;
};

struct NamedExpression {
  std::string name;
  Expression value;
};
struct DictEntry {
  Expression key, value;
};
struct Comparand {
  CompareOp op;
  Expression value;
};

/// What a value is assigned to: a name, a member of a namespace, or several targets.
struct Target {
  std::string name;
  std::string member;         ///< empty: a plain name
  std::vector<Target> parts;  ///< not empty: unpacking; `name` is then empty
  bool unpacks = false;
};

struct TextStatement {
  std::string text;
};
struct OutputStatement {
  Expression value;
};
struct IfStatement {
  std::vector<std::pair<Expression, Body>> branches;
  Body otherwise;
};
struct ForStatement {
  Target target;
  Expression iterable;
  std::optional<Expression> condition;
  Body body, otherwise;
};
struct SetStatement {
  Target target;
  Expression value;
};
/// {% set x %}…{% endset %}; filters are applied to the text.
struct SetBlockStatement {
  Target target;
  std::vector<FilterCall> filters;
  Body body;
};
struct MacroStatement {
  std::string name;
  std::vector<std::pair<std::string, std::optional<Expression>>> parameters;
  Body body;
  bool takes_varargs = false, takes_kwargs = false;  ///< its body speaks of them
};
struct FilterStatement {
  std::vector<FilterCall> filters;
  Body body;
};
/// {% generation %} and {% with %}: variables set inside end there.
struct ScopeStatement {
  std::vector<std::pair<Target, Expression>> variables;
  Body body;
};
struct BreakStatement {};
struct ContinueStatement {};

struct Statement {
  std::variant<TextStatement, OutputStatement, IfStatement, ForStatement, SetStatement,
               SetBlockStatement, MacroStatement, FilterStatement, ScopeStatement, BreakStatement,
               ContinueStatement>
      node;
  int line = 1;
};

/// Null where there is no filter or test of that name here.
FilterFunction find_filter(std::string_view name);
TestFunction find_test(std::string_view name);

}  // namespace mainstem::chat
