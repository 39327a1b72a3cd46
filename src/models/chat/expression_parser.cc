#include <algorithm>

#include "models/chat/parser.h"

namespace mainstem::chat {
namespace {

Expression text_literal(std::string text) {
  return {Literal{Value(Shared<const Text>(std::make_shared<Text>(Text{std::move(text)})))}};
}

struct ComparisonWord {
  std::string_view op;
  CompareOp meaning;
};
constexpr ComparisonWord kComparisons[] = {
    {"==", CompareOp::kEqual},     {"!=", CompareOp::kNotEqual}, {"<", CompareOp::kLess},
    {"<=", CompareOp::kLessEqual}, {">", CompareOp::kGreater},   {">=", CompareOp::kGreaterEqual}};

}  // namespace

Expression ExpressionParser::expression(Conditions conditions) {
  const Nesting nesting(*this);
  return conditions == Conditions::kYes ? conditional() : logic_or();
}

Expression ExpressionParser::conditional() {
  Nesting nesting(*this);
  Expression value = logic_or();
  while (tokens_.skip_name("if")) {
    nesting.deeper();
    Conditional node;
    node.then = boxed(std::move(value));
    node.condition = boxed(logic_or());
    if (tokens_.skip_name("else")) node.otherwise = boxed(conditional());
    value = {std::move(node)};
  }
  return value;
}

Expression ExpressionParser::logic_or() {
  Nesting nesting(*this);
  Expression value = logic_and();
  while (tokens_.skip_name("or")) {
    nesting.deeper();
    value = {Logic{LogicOp::kOr, boxed(std::move(value)), boxed(logic_and())}};
  }
  return value;
}

Expression ExpressionParser::logic_and() {
  Nesting nesting(*this);
  Expression value = logic_not();
  while (tokens_.skip_name("and")) {
    nesting.deeper();
    value = {Logic{LogicOp::kAnd, boxed(std::move(value)), boxed(logic_not())}};
  }
  return value;
}

Expression ExpressionParser::logic_not() {
  if (!tokens_.skip_name("not")) return comparison();
  const Nesting nesting(*this);
  return {Unary{UnaryOp::kNot, boxed(logic_not())}};
}

Expression ExpressionParser::comparison() {
  Expression first = sum();
  Comparison node;
  while (true) {
    const auto found = std::find_if(std::begin(kComparisons), std::end(kComparisons),
                                    [&](const auto& each) { return tokens_.is_op(each.op); });
    if (found != std::end(kComparisons)) {
      tokens_.take();
      node.rest.push_back({found->meaning, sum()});
    } else if (tokens_.skip_name("in")) {
      node.rest.push_back({CompareOp::kIn, sum()});
    } else if (tokens_.is_name("not") &&
               TokenStream::matches(tokens_.next(), TokenKind::kName, "in")) {
      tokens_.take();
      tokens_.take();
      node.rest.push_back({CompareOp::kNotIn, sum()});
    } else {
      break;
    }
  }
  if (node.rest.empty()) return first;
  node.first = boxed(std::move(first));
  return {std::move(node)};
}

Expression ExpressionParser::sum() {
  Nesting nesting(*this);
  Expression value = concatenation();
  while (tokens_.is_op("+") || tokens_.is_op("-")) {
    nesting.deeper();
    const BinaryOp op = tokens_.take().text == "+" ? BinaryOp::kAdd : BinaryOp::kSubtract;
    value = {Binary{op, boxed(std::move(value)), boxed(concatenation())}};
  }
  return value;
}

Expression ExpressionParser::concatenation() {
  Expression first = product();
  if (!tokens_.is_op("~")) return first;
  Concatenation node;
  node.parts.push_back(std::move(first));
  while (tokens_.skip_op("~")) node.parts.push_back(product());
  return {std::move(node)};
}

Expression ExpressionParser::product() {
  Nesting nesting(*this);
  Expression value = power();
  while (true) {
    BinaryOp op{};
    if (tokens_.skip_op("*")) {
      op = BinaryOp::kMultiply;
    } else if (tokens_.skip_op("/")) {
      op = BinaryOp::kDivide;
    } else if (tokens_.skip_op("//")) {
      op = BinaryOp::kFloorDivide;
    } else if (tokens_.skip_op("%")) {
      op = BinaryOp::kModulo;
    } else {
      return value;
    }
    nesting.deeper();
    value = {Binary{op, boxed(std::move(value)), boxed(power())}};
  }
}

Expression ExpressionParser::power() {
  Nesting nesting(*this);
  Expression value = unary(Filters::kYes);
  while (tokens_.skip_op("**")) {
    nesting.deeper();
    value = {Binary{BinaryOp::kPower, boxed(std::move(value)), boxed(unary(Filters::kYes))}};
  }
  return value;
}

Expression ExpressionParser::unary(Filters filters) {
  const Nesting nesting(*this);
  Expression value;
  if (tokens_.skip_op("-")) {
    value = {Unary{UnaryOp::kMinus, boxed(unary(Filters::kNo))}};
  } else if (tokens_.skip_op("+")) {
    value = {Unary{UnaryOp::kPlus, boxed(unary(Filters::kNo))}};
  } else {
    value = primary();
  }
  value = postfix(std::move(value));
  return filters == Filters::kYes ? filters_and_tests(std::move(value)) : std::move(value);
}

Expression ExpressionParser::primary() {
  const Token& token = tokens_.current();
  switch (token.kind) {
    case TokenKind::kName: {
      const std::string name = tokens_.take().text;
      if (name == "true" || name == "True") return literal(Value(true));
      if (name == "false" || name == "False") return literal(Value(false));
      if (name == "none" || name == "None") return literal(Value());
      return {Name{name}};
    }
    case TokenKind::kString: {
      std::string text;
      while (tokens_.is(TokenKind::kString)) text += tokens_.take().text;
      return text_literal(std::move(text));
    }
    case TokenKind::kInteger:
      return literal(Value(tokens_.take().integer));
    case TokenKind::kFloat:
      return literal(Value(tokens_.take().number));
    default:
      break;
  }
  if (tokens_.is_op("(")) return parenthesised();
  if (tokens_.is_op("[")) return list_literal();
  if (tokens_.is_op("{")) return dict_literal();
  tokens_.refuse("an expression");
}

Expression ExpressionParser::parenthesised() {
  tokens_.expect_op("(");
  Expression value = tokens_.is_op(")") ? Expression{TupleLiteral{}} : tuple();
  tokens_.expect_op(")");
  return value;
}

Expression ExpressionParser::list_literal() {
  ListLiteral node;
  tokens_.expect_op("[");
  while (!tokens_.is_op("]")) {
    if (!node.items.empty()) tokens_.expect_op(",");
    if (tokens_.is_op("]")) break;
    node.items.push_back(expression());
  }
  tokens_.expect_op("]");
  return {std::move(node)};
}

Expression ExpressionParser::dict_literal() {
  DictLiteral node;
  tokens_.expect_op("{");
  while (!tokens_.is_op("}")) {
    if (!node.entries.empty()) tokens_.expect_op(",");
    if (tokens_.is_op("}")) break;
    Expression key = expression();
    tokens_.expect_op(":");
    node.entries.push_back({std::move(key), expression()});
  }
  tokens_.expect_op("}");
  return {std::move(node)};
}

bool ExpressionParser::at_tuple_end(std::string_view end_word) const {
  return tokens_.is(TokenKind::kVariableEnd) || tokens_.is(TokenKind::kBlockEnd) ||
         tokens_.is_op(")") || (!end_word.empty() && tokens_.is_name(end_word));
}

Expression ExpressionParser::tuple(Conditions conditions, std::string_view end_word) {
  TupleLiteral node;
  bool is_tuple = false;
  do {
    if (at_tuple_end(end_word)) break;
    node.items.push_back(expression(conditions));
    is_tuple = is_tuple || tokens_.is_op(",");
  } while (tokens_.skip_op(","));
  if (is_tuple) return {std::move(node)};
  if (node.items.empty()) tokens_.refuse("an expression");
  return std::move(node.items[0]);
}

Target ExpressionParser::target(Members members, std::string_view end_word) {
  Target whole;
  whole.unpacks = false;
  do {
    if (at_tuple_end(end_word)) break;
    whole.parts.push_back(one_target(members, end_word));
    whole.unpacks = whole.unpacks || tokens_.is_op(",");
  } while (tokens_.skip_op(","));
  if (whole.parts.empty()) tokens_.refuse("a name to assign to");
  if (whole.unpacks) return whole;
  Target only = std::move(whole.parts[0]);
  return only;
}

Target ExpressionParser::one_target(Members members, std::string_view) {
  const Nesting nesting(*this);
  if (tokens_.skip_op("(")) {
    Target inner = target(Members::kNo);
    tokens_.expect_op(")");
    return inner;
  }
  Target result;
  result.name = tokens_.expect(TokenKind::kName, "a name to assign to").text;
  for (const char* word : {"true", "false", "none", "True", "False", "None"}) {
    if (result.name == word) tokens_.refuse("a name to assign to", quote(word));
  }
  if (members == Members::kYes && tokens_.skip_op(".")) {
    result.member = tokens_.expect(TokenKind::kName, "a member's name").text;
  }
  return result;
}

}  // namespace mainstem::chat
