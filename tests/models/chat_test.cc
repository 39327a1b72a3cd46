// Chat templates: what the interface promises, and what hostile templates may not do.
#include <gtest/gtest.h>

#include <string>

#include "mainstem/chat.h"
#include "mainstem/error.h"

namespace mainstem {
namespace {

std::string render(const std::string& text, const ChatOptions& options = {}) {
  return ChatTemplate::parse(text).render({}, options);
}

/// The message of the error; fails where there is none, or not of this code.
std::string error_of(const std::string& text, ErrorCode code = ErrorCode::kBadInput) {
  try {
    const std::string made = render(text);
    ADD_FAILURE() << "no error, but " << made.size() << " bytes: " << made.substr(0, 80);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), code) << error.what();
    return error.what();
  }
  return {};
}

#define EXPECT_HAS(text, part) EXPECT_NE(std::string(text).find(part), std::string::npos) << (text)

std::string repeated(const std::string& part, int count) {
  std::string text;
  for (int i = 0; i < count; ++i) text += part;
  return text;
}

TEST(Chat, RendersMessages) {
  const auto chat = ChatTemplate::parse(
      "{{ bos_token }}{% for m in messages %}<{{ m.role }}>{{ m.content }}{{ eos_token }}"
      "{% endfor %}{% if add_generation_prompt %}<assistant>{% endif %}");
  const ChatMessage messages[] = {{"system", "Be brief."}, {"user", "Hi"}};
  EXPECT_EQ(chat.render(messages, {.add_generation_prompt = true, .eos_token = "</s>"}),
            "<system>Be brief.</s><user>Hi</s><assistant>");
  EXPECT_EQ(chat.render({messages, 1}, {.bos_token = "<s>"}), "<s><system>Be brief.");
}

TEST(Chat, MessagesAsJsonKeepTheirOrderAndLoseTheirNulls) {
  const auto chat = ChatTemplate::parse("{{ messages|tojson }}");
  EXPECT_EQ(chat.render_json(R"([{"role":"z","content":null,"a":[1,2.0,true]}])"),
            R"([{"role": "z", "a": [1, 2.0, true]}])");
  // Reasoning under one name is there under both, where transformers puts it.
  EXPECT_EQ(chat.render_json(R"([{"role":"a","reasoning":"r"}])"),
            R"([{"thinking": "r", "role": "a", "reasoning": "r", "reasoning_content": "r"}])");
}

TEST(Chat, BadCallsAreUsageErrors) {
  const auto chat = ChatTemplate::parse("{{ messages|length }}");
  const auto code_of = [](auto&& body) {
    try {
      body();
    } catch (const Error& error) {
      return error.code();
    }
    return ErrorCode::kInternal;
  };
  const ChatMessage broken[] = {{"user", "\xFF"}};
  EXPECT_EQ(code_of([&] { chat.render(broken); }), ErrorCode::kUsage);
  for (const char* messages : {"", "{", "{}", "[1]", "[{}] x", "[{\"a\":99999999999999999999}]"}) {
    EXPECT_EQ(code_of([&] { chat.render_json(messages); }), ErrorCode::kUsage) << messages;
  }
  EXPECT_EQ(code_of([&] { chat.render({}, {.variables = "[]"}); }), ErrorCode::kUsage);
  EXPECT_EQ(code_of([&] { chat.render({}, {.tools = "nope"}); }), ErrorCode::kUsage);
}

TEST(Chat, WhatIsNotSupportedIsNamedWhenParsed) {
  EXPECT_HAS(error_of("\n{% include 'x' %}"), "{% include %}");
  EXPECT_HAS(error_of("\n{% include 'x' %}"), "line 2");
  EXPECT_HAS(error_of("{% if false %}{% call m() %}{% endcall %}{% endif %}"), "{% call %}");
  EXPECT_HAS(error_of("{% if false %}{{ x|wordwrap }}{% endif %}"), "the filter \"wordwrap\"");
  EXPECT_HAS(error_of("{% if false %}{{ x is even_more }}{% endif %}"), "the test \"even_more\"");
  EXPECT_HAS(error_of("{% for x in [] recursive %}{% endfor %}"), "recursive");
  EXPECT_HAS(error_of("{{ [1][0, 1] }}"), "several indices");
  EXPECT_HAS(error_of("{{ cycler(1) }}"), "the function \"cycler\"");
  EXPECT_HAS(error_of("{{ 'a'.zfill(3) }}"), "str.zfill");
}

TEST(Chat, ErrorsNameTheLineOfTheInnermostStatement) {
  EXPECT_HAS(error_of("a\n{% if true %}\n\n{{ nope.x }}\n{% endif %}"), "line 4");
  EXPECT_HAS(error_of("{% macro m() %}\n{{ 1 + 'a' }}{% endmacro %}\n\n{{ m() }}"), "line 2");
  EXPECT_HAS(error_of("a\n\n{{ 1 + }}"), "line 3");
}

TEST(Chat, ATemplateMayRefuse) {
  const std::string text =
      error_of("\n{{ raise_exception('No system role!') }}", ErrorCode::kUsage);
  EXPECT_HAS(text, "No system role!");
  EXPECT_HAS(text, "line 2");
}

TEST(Chat, ObjectsCannotBeReached) {
  EXPECT_EQ(render("{{ ''.__class__ }}{{ messages.__init__ }}{{ range.__globals__ is defined }}"
                   "{{ {}['__class__'] }}{{ namespace.__mro__ is defined }}"),
            "FalseFalse");
}

TEST(ChatLimits, StepsEnd) {
  EXPECT_HAS(error_of("{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}"
                      "{% endfor %}"),
             "steps");
  EXPECT_HAS(error_of("{% set ns = namespace(s='aaaaaaaaaaaaaaaa') %}{% for a in range(20) %}"
                      "{% set ns.s = ns.s + ns.s %}{% endfor %}"
                      "{{ ns.s.count(ns.s[:900000] ~ 'b') }}"),
             "steps");
}

TEST(ChatLimits, MemoryEnds) {
  EXPECT_HAS(error_of("{{ 'a' * 10**12 }}"), "bytes");
  EXPECT_HAS(error_of("{{ [0] * 10**12 }}"), "bytes");
  EXPECT_HAS(error_of("{{ 'a'|indent(10**12) }}"), "bytes");
  EXPECT_HAS(error_of("{{ [1]|tojson(indent=10**12) }}"), "bytes");
  EXPECT_HAS(error_of("{{ '%999999999999d' % 1 }}"), "bytes");
  EXPECT_HAS(error_of("{{ ('a' * 10**6).replace('a', 'b' * 10**6) }}"), "bytes");
  EXPECT_HAS(error_of("{% set ns = namespace(l=[1]) %}{% for a in range(60) %}"
                      "{% set ns.l = ns.l + ns.l %}{% endfor %}"),
             "bytes");
  // Small values, large when they are printed.
  EXPECT_HAS(error_of("{% set ns = namespace(l=[1]) %}{% for a in range(60) %}"
                      "{% set ns.l = [ns.l, ns.l] %}{% endfor %}{{ ns.l }}"),
             "at most");
  EXPECT_HAS(error_of("{% set x = 'a' * 60000000 %}{{ x }}{{ x }}"), "bytes");
}

TEST(ChatLimits, DepthEnds) {
  EXPECT_HAS(error_of("{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}"), "within each other");
  EXPECT_HAS(error_of("{% set ns = namespace(l=[]) %}{% for a in range(200) %}"
                      "{% set ns.l = [ns.l] %}{% endfor %}"),
             "within each other");
  for (const char* part : {"(", "[", "{1:", "-", "not ", "f(", "a[", "1 if 1 else ", "1 ** "}) {
    EXPECT_HAS(error_of("{{ " + repeated(part, 20000)), "line 1") << part;
  }
  EXPECT_HAS(error_of("{{ 1 " + repeated("+ 1 ", 20000) + "}}"), "within each other");
  EXPECT_HAS(error_of("{{ x" + repeated(".x", 20000) + "}}"), "within each other");
  EXPECT_HAS(error_of("{{ 'x'" + repeated("|upper", 20000) + "}}"), "within each other");
  EXPECT_HAS(error_of(repeated("{% if 1 %}", 20000)), "within each other");
  EXPECT_HAS(error_of("{{ 'a'|map('map'" + repeated(",'map'", 20000) + ")|list }}"),
             "within each other");
}

TEST(ChatLimits, ValuesThatHoldThemselvesAreFreed) {
  // For the leak check of the sanitizer builds.
  EXPECT_EQ(render("{% set a = namespace() %}{% set b = namespace(a=a) %}{% set a.b = [b, a] %}"
                   "{% macro m() %}{{ m }}{% endmacro %}{% set a.m = m %}{% set a.l = loop %}ok"),
            "ok");
  EXPECT_EQ(render("{% for x in range(3) %}{% macro m(y) %}{{ x }}{{ y }}{% endmacro %}{{ m(1) }}"
                   "{% endfor %}"),
            "011121");
}

TEST(ChatLimits, NumbersEnd) {
  EXPECT_HAS(error_of("{{ 9223372036854775807 + 1 }}"), "64 bits");
  EXPECT_HAS(error_of("{{ 9223372036854775808 }}"), "64 bits");
  EXPECT_HAS(error_of("{{ 10 ** 99 }}"), "64 bits");
  EXPECT_HAS(error_of("{{ (-9223372036854775807 - 1)|abs }}"), "64 bits");
  EXPECT_HAS(error_of("{{ (-9223372036854775807 - 1) // -1 }}"), "64 bits");
  EXPECT_HAS(error_of("{{ 1e300|int }}"), "64 bits");
  EXPECT_EQ(render("{{ (-9223372036854775807 - 1) % -1 }} {{ range(-9223372036854775807, "
                   "9223372036854775807, 9223372036854775807)|length }} {{ 'ab'[::-9223372036854775"
                   "807] }} {{ 'ab'[9223372036854775807:-9223372036854775807:-1] }}"),
            "0 2 b ba");
}

TEST(ChatLimits, TemplatesThatEndTooSoon) {
  const std::string whole =
      "{% set ns = namespace(a='x\\u00e9') %}{% for k, v in {'a': [1.5e3, -2]}.items() if v "
      "%}{{- loop.index ~ k|upper -}}{% else %}{# c #}{% endfor %}{% macro m(a, b=1) %}"
      "{{ a[1:-1] is not none and b in (1, 2) }}{% endmacro %}{% raw %}{{ x }}{% endraw %}";
  EXPECT_EQ(render(whole), "1A{{ x }}");
  for (size_t length = 0; length < whole.size(); ++length) {
    for (const char* more : {"", "}}", "%}", "'", "\xC3"}) {
      try {
        render(whole.substr(0, length) + more);
      } catch (const Error& error) {
        EXPECT_EQ(error.code(), ErrorCode::kBadInput) << error.what();
      }
    }
  }
}

}  // namespace
}  // namespace mainstem
