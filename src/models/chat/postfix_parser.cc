#include "models/chat/parser.h"

// What stands behind a value: members, indices, calls, filters and tests.

namespace mainstem::chat {

void ExpressionParser::Nesting::deeper() {
  if (parser_.depth_ == kMostNested) {
    parser_.tokens_.refuse(
        "at most " + std::to_string(kMostNested) + " expressions within each other", "more");
  }
  ++parser_.depth_;
  ++added_;
}

Expression ExpressionParser::postfix(Expression value) {
  Nesting nesting(*this);
  while (true) {
    if (tokens_.is_op(".")) {
      value = attribute(std::move(value));
    } else if (tokens_.is_op("[")) {
      value = subscript(std::move(value));
    } else if (tokens_.is_op("(")) {
      value = {Call{boxed(std::move(value)), arguments()}};
    } else {
      return value;
    }
    nesting.deeper();
  }
}

Expression ExpressionParser::filters_and_tests(Expression value) {
  Nesting nesting(*this);
  while (true) {
    if (tokens_.skip_op("|")) {
      value = {filter_call(boxed(std::move(value)))};
    } else if (tokens_.is_name("is")) {
      value = test(std::move(value));
    } else if (tokens_.is_op("(")) {
      value = {Call{boxed(std::move(value)), arguments()}};
    } else {
      return value;
    }
    nesting.deeper();
  }
}

Expression ExpressionParser::attribute(Expression object) {
  tokens_.expect_op(".");
  if (tokens_.is(TokenKind::kInteger)) {
    return {Index{boxed(std::move(object)), boxed(literal(Value(tokens_.take().integer)))}};
  }
  const std::string name = tokens_.expect(TokenKind::kName, "a name or a number").text;
  return {Attribute{boxed(std::move(object)), name}};
}

Expression ExpressionParser::subscript(Expression object) {
  tokens_.expect_op("[");
  ExpressionPtr start;
  if (!tokens_.is_op(":")) start = boxed(expression());
  if (!tokens_.is_op(":")) {
    if (tokens_.is_op(",")) tokens_.unsupported("several indices");
    tokens_.expect_op("]");
    return {Index{boxed(std::move(object)), std::move(start)}};
  }
  tokens_.take();
  Slice node{.object = boxed(std::move(object)), .start = std::move(start), .stop = {}, .step = {}};
  if (!tokens_.is_op(":") && !tokens_.is_op("]")) node.stop = boxed(expression());
  if (tokens_.skip_op(":") && !tokens_.is_op("]")) node.step = boxed(expression());
  if (tokens_.is_op(",")) tokens_.unsupported("several indices");
  tokens_.expect_op("]");
  return {std::move(node)};
}

std::string ExpressionParser::dotted_name() {
  std::string name = tokens_.expect(TokenKind::kName, "a name").text;
  while (tokens_.skip_op(".")) name += "." + tokens_.expect(TokenKind::kName, "a name").text;
  return name;
}

std::vector<FilterCall> ExpressionParser::filters() {
  std::vector<FilterCall> calls;
  while (tokens_.skip_op("|")) calls.push_back(filter_call(nullptr));
  return calls;
}

FilterCall ExpressionParser::filter_call(ExpressionPtr input) {
  FilterCall node{
      .input = std::move(input), .name = dotted_name(), .function = {}, .arguments = {}};
  node.function = find_filter(node.name);
  if (node.function == nullptr) tokens_.unsupported("the filter " + quote(node.name));
  if (tokens_.is_op("(")) node.arguments = arguments();
  return node;
}

Expression ExpressionParser::test(Expression input) {
  tokens_.expect_name("is");
  const bool negated = tokens_.skip_name("not");
  TestCall node{
      .input = boxed(std::move(input)), .name = dotted_name(), .function = {}, .arguments = {}};
  node.function = find_test(node.name);
  if (node.function == nullptr) tokens_.unsupported("the test " + quote(node.name));
  const auto begins_argument = [&] {
    switch (tokens_.current().kind) {
      case TokenKind::kString:
      case TokenKind::kInteger:
      case TokenKind::kFloat:
        return true;
      case TokenKind::kName:
        return !tokens_.is_name("else") && !tokens_.is_name("or") && !tokens_.is_name("and");
      default:
        return tokens_.is_op("[") || tokens_.is_op("{");
    }
  };
  if (tokens_.is_op("(")) {
    node.arguments = arguments();
  } else if (begins_argument()) {
    if (tokens_.is_name("is")) tokens_.refuse("one test after another value", "'is' twice");
    node.arguments.positional.push_back(postfix(primary()));
  }
  Expression value{std::move(node)};
  return negated ? Expression{Unary{UnaryOp::kNot, boxed(std::move(value))}} : std::move(value);
}

CallArguments ExpressionParser::arguments() {
  CallArguments result;
  tokens_.expect_op("(");
  for (bool first = true; !tokens_.is_op(")"); first = false) {
    if (!first) {
      tokens_.expect_op(",");
      if (tokens_.is_op(")")) break;
    }
    one_argument(result);
  }
  tokens_.expect_op(")");
  return result;
}

void ExpressionParser::one_argument(CallArguments& result) {
  const auto ensure = [&](bool right) {
    if (!right) tokens_.refuse("positional, named, *, then ** arguments", "another order");
  };
  if (tokens_.skip_op("*")) {
    ensure(result.more_positional == nullptr && result.more_named == nullptr);
    result.more_positional = boxed(expression());
  } else if (tokens_.skip_op("**")) {
    ensure(result.more_named == nullptr);
    result.more_named = boxed(expression());
  } else if (tokens_.is(TokenKind::kName) &&
             TokenStream::matches(tokens_.next(), TokenKind::kOperator, "=")) {
    ensure(result.more_named == nullptr);
    const std::string name = tokens_.take().text;
    tokens_.take();
    for (const auto& [given, value] : result.named) {
      if (given == name) tokens_.refuse("each argument once", quote(name) + " twice");
    }
    result.named.push_back({name, expression()});
  } else {
    ensure(result.more_positional == nullptr && result.more_named == nullptr &&
           result.named.empty());
    result.positional.push_back(expression());
  }
}

}  // namespace mainstem::chat
