#pragma once

#include <functional>
#include <initializer_list>
#include <string_view>

#include "models/chat/ast.h"
#include "models/chat/token_stream.h"

namespace mainstem::chat {

/// Expressions by the grammar of jinja2 3.1.6. Every Error names the line.
class ExpressionParser {
 public:
  explicit ExpressionParser(TokenStream& tokens) : tokens_(tokens) {}

  enum class Conditions { kYes, kNo };  ///< may "a if b" stand here?
  Expression expression(Conditions conditions = Conditions::kYes);
  /// One expression, or several with commas between them as a tuple.
  Expression tuple(Conditions conditions = Conditions::kYes, std::string_view end_word = {});
  enum class Members { kYes, kNo };  ///< may "space.member" stand here?
  Target target(Members members, std::string_view end_word = {});
  /// Filters from a "|" on; none where there is none.
  std::vector<FilterCall> filters();
  FilterCall filter_call(ExpressionPtr input);

 private:
  /// Expressions within each other. The depth of the tree is bounded by it, and so is the length
  /// of chains, which count as well.
  class Nesting {
   public:
    explicit Nesting(ExpressionParser& parser) : parser_(parser) { deeper(); }
    ~Nesting() { parser_.depth_ -= added_; }
    Nesting(const Nesting&) = delete;
    Nesting& operator=(const Nesting&) = delete;
    void deeper();

   private:
    ExpressionParser& parser_;
    int added_ = 0;
  };
  static constexpr int kMostNested = 300;

  static ExpressionPtr boxed(Expression value) {
    return std::make_unique<Expression>(std::move(value));
  }
  static Expression literal(Value value) { return {Literal{std::move(value)}}; }

  Expression conditional();
  Expression logic_or();
  Expression logic_and();
  Expression logic_not();
  Expression comparison();
  Expression sum();
  Expression concatenation();
  Expression product();
  Expression power();
  enum class Filters { kYes, kNo };
  Expression unary(Filters filters);
  Expression primary();
  Expression postfix(Expression value);
  Expression filters_and_tests(Expression value);
  Expression parenthesised();
  Expression list_literal();
  Expression dict_literal();
  Expression attribute(Expression object);
  Expression subscript(Expression object);
  Expression test(Expression input);
  CallArguments arguments();
  void one_argument(CallArguments& result);
  bool at_tuple_end(std::string_view end_word) const;
  Target one_target(Members members, std::string_view end_word);
  std::string dotted_name();

  TokenStream& tokens_;
  int depth_ = 0;
};

/// Statements and text.
class Parser {
 public:
  explicit Parser(std::string_view source);
  Body run();

 private:
  using Words = std::initializer_list<std::string_view>;

  /// Up to a tag that begins with one of the words, or to the end; the tag's word stays.
  Body body(Words ends);
  /// The end of a tag, and what stands up to one of the words.
  Body block(Words ends);
  /// The same; the word and its tag's end are taken.
  Body whole_block(std::string_view end);
  Statement statement();
  Statement if_statement();
  Statement for_statement();
  Statement set_statement();
  Statement macro_statement();
  Statement filter_statement();
  Statement with_statement();
  Statement generation_statement();
  Statement loop_control();
  [[noreturn]] void refuse_statement(const std::string& word);
  void end_tag() { tokens_.expect(TokenKind::kBlockEnd, "the end of the tag, %}"); }
  void check_target(const Target& target) const;

  TokenStream tokens_;
  ExpressionParser expressions_;
  int line_ = 1;
  int depth_ = 0, loops_ = 0, breakable_ = 0;
};

}  // namespace mainstem::chat
