#include "models/chat/parser.h"

#include <algorithm>

namespace mainstem::chat {
namespace {

constexpr int kMostNested = 60;

constexpr std::string_view kKnownElsewhere[] = {"call",   "block", "extends",    "include",
                                                "import", "from",  "autoescape", "print",
                                                "do",     "trans", "debug"};

}  // namespace

Parser::Parser(std::string_view source) : tokens_(tokenize(source)), expressions_(tokens_) {}

Body Parser::run() { return body({}); }

Body Parser::body(Words ends) {
  if (++depth_ > kMostNested) {
    tokens_.refuse("at most " + std::to_string(kMostNested) + " blocks within each other", "more");
  }
  Body result;
  while (!tokens_.is(TokenKind::kEnd)) {
    const Token token = tokens_.take();
    line_ = token.line;
    if (token.kind == TokenKind::kData) {
      result.push_back({TextStatement{token.text}, token.line});
    } else if (token.kind == TokenKind::kVariableBegin) {
      result.push_back({OutputStatement{expressions_.tuple()}, token.line});
      tokens_.expect(TokenKind::kVariableEnd, "the end of the expression, }}");
    } else {
      const bool ended = std::any_of(ends.begin(), ends.end(),
                                     [&](std::string_view end) { return tokens_.is_name(end); });
      if (ended) {
        --depth_;
        return result;
      }
      result.push_back(statement());
      end_tag();
    }
  }
  if (ends.size() > 0) tokens_.refuse("{% " + std::string(ends.end()[-1]) + " %}");
  --depth_;
  return result;
}

Body Parser::block(Words ends) {
  tokens_.skip_op(":");
  end_tag();
  return body(ends);
}

Body Parser::whole_block(std::string_view end) {
  Body result = block({end});
  tokens_.expect_name(end);
  return result;
}

Statement Parser::statement() {
  const int line = line_;
  const auto parsed = [&]() -> Statement {
    if (tokens_.is_name("if")) return if_statement();
    if (tokens_.is_name("for")) return for_statement();
    if (tokens_.is_name("set")) return set_statement();
    if (tokens_.is_name("macro")) return macro_statement();
    if (tokens_.is_name("filter")) return filter_statement();
    if (tokens_.is_name("with")) return with_statement();
    if (tokens_.is_name("generation")) return generation_statement();
    if (tokens_.is_name("break") || tokens_.is_name("continue")) return loop_control();
    refuse_statement(tokens_.expect(TokenKind::kName, "the name of a tag").text);
  };
  Statement result = parsed();
  result.line = line;
  return result;
}

void Parser::refuse_statement(const std::string& word) {
  const bool known = std::find(std::begin(kKnownElsewhere), std::end(kKnownElsewhere), word) !=
                     std::end(kKnownElsewhere);
  if (known) tokens_.unsupported("{% " + word + " %}");
  tokens_.refuse("a tag that there is, in its place", "{% " + word + " %}");
}

Statement Parser::if_statement() {
  tokens_.expect_name("if");
  IfStatement node;
  while (true) {
    Expression condition = expressions_.tuple(ExpressionParser::Conditions::kNo);
    node.branches.emplace_back(std::move(condition), block({"elif", "else", "endif"}));
    if (tokens_.skip_name("elif")) continue;
    if (tokens_.skip_name("else")) {
      node.otherwise = whole_block("endif");
    } else {
      tokens_.expect_name("endif");
    }
    return {std::move(node)};
  }
}

void Parser::check_target(const Target& target) const {
  if (target.name == "loop" && target.member.empty() && loops_ > 0) {
    tokens_.refuse("another variable: a loop sets this one", "'loop'");
  }
  for (const Target& part : target.parts) check_target(part);
}

Statement Parser::for_statement() {
  tokens_.expect_name("for");
  ForStatement node;
  node.target = expressions_.target(ExpressionParser::Members::kNo, "in");
  ++loops_;
  check_target(node.target);
  tokens_.expect_name("in");
  node.iterable = expressions_.tuple(ExpressionParser::Conditions::kNo, "recursive");
  if (tokens_.skip_name("if")) node.condition = expressions_.expression();
  if (tokens_.is_name("recursive")) tokens_.unsupported("a recursive loop");
  ++breakable_;
  node.body = block({"else", "endfor"});
  --breakable_;
  if (tokens_.skip_name("else")) {
    node.otherwise = whole_block("endfor");
  } else {
    tokens_.expect_name("endfor");
  }
  --loops_;
  return {std::move(node)};
}

Statement Parser::set_statement() {
  tokens_.expect_name("set");
  Target target = expressions_.target(ExpressionParser::Members::kYes);
  check_target(target);
  if (tokens_.skip_op("=")) return {SetStatement{std::move(target), expressions_.tuple()}};
  SetBlockStatement node{.target = std::move(target), .filters = {}, .body = {}};
  if (node.target.unpacks) tokens_.refuse("'='");
  node.filters = expressions_.filters();
  node.body = whole_block("endset");
  return {std::move(node)};
}

Statement Parser::macro_statement() {
  tokens_.expect_name("macro");
  MacroStatement node;
  node.name = tokens_.expect(TokenKind::kName, "the macro's name").text;
  tokens_.expect_op("(");
  while (!tokens_.is_op(")")) {
    if (!node.parameters.empty()) tokens_.expect_op(",");
    std::string name = tokens_.expect(TokenKind::kName, "a parameter's name").text;
    std::optional<Expression> value;
    if (tokens_.skip_op("=")) {
      value = expressions_.expression();
    } else if (!node.parameters.empty() && node.parameters.back().second.has_value()) {
      tokens_.refuse("a default value after another", quote(name) + " without one");
    }
    for (const auto& [given, fallback] : node.parameters) {
      if (given == name) tokens_.refuse("each parameter once", quote(name) + " twice");
    }
    node.parameters.emplace_back(std::move(name), std::move(value));
  }
  tokens_.expect_op(")");
  const int breakable = std::exchange(breakable_, 0);
  const size_t begin = tokens_.position();
  node.body = whole_block("endmacro");
  node.takes_varargs = tokens_.had_name("varargs", begin);
  node.takes_kwargs = tokens_.had_name("kwargs", begin);
  breakable_ = breakable;
  return {std::move(node)};
}

Statement Parser::filter_statement() {
  tokens_.expect_name("filter");
  FilterStatement node;
  node.filters.push_back(expressions_.filter_call(nullptr));
  for (FilterCall& more : expressions_.filters()) node.filters.push_back(std::move(more));
  node.body = whole_block("endfilter");
  return {std::move(node)};
}

Statement Parser::with_statement() {
  tokens_.expect_name("with");
  ScopeStatement node;
  while (!tokens_.is(TokenKind::kBlockEnd)) {
    if (!node.variables.empty()) tokens_.expect_op(",");
    Target target;
    target.name = tokens_.expect(TokenKind::kName, "a variable").text;
    check_target(target);
    tokens_.expect_op("=");
    node.variables.emplace_back(std::move(target), expressions_.expression());
  }
  node.body = whole_block("endwith");
  return {std::move(node)};
}

Statement Parser::generation_statement() {
  tokens_.expect_name("generation");
  ScopeStatement node;
  const int breakable = std::exchange(breakable_, 0);
  node.body = whole_block("endgeneration");
  breakable_ = breakable;
  return {std::move(node)};
}

Statement Parser::loop_control() {
  const bool breaks = tokens_.take().text == "break";
  if (breakable_ == 0) tokens_.refuse("a loop around {% break %} and {% continue %}", "none");
  if (breaks) return {BreakStatement{}};
  return {ContinueStatement{}};
}

}  // namespace mainstem::chat
