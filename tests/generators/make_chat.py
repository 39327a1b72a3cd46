#!/usr/bin/env python3
"""Writes tests/golden/chat.json: texts that transformers' own environment for chat templates gives,
for the templates and conversations of chat_templates.py and the small templates of
chat_expressions.py. An error is null.

    pip install transformers==5.24.0 jinja2==3.1.6
    python tests/generators/make_chat.py
"""
import datetime
import json
import pathlib

import chat_expressions
import chat_templates
from transformers.utils import chat_template_utils as chat

NOW = 1_700_000_000  # 2023-11-14 22:13:20 UTC


def set_clock(template: str) -> None:
    environment = chat._compile_jinja_template(template).environment
    now = datetime.datetime.fromtimestamp(NOW, datetime.timezone.utc)
    environment.globals["strftime_now"] = now.strftime


def render(template: str, messages=(), variables=None, **options):
    """The text, or None where transformers or jinja2 raises anything."""
    try:
        set_clock(template)
        messages = chat._normalize_chat_messages(list(messages))
        texts, _ = chat.render_jinja_template([messages], chat_template=template, **options, **(variables or {}))
        return texts[0]
    except Exception:  # whatever it is, ours must be an error too
        return None


def main() -> None:
    lines = [json.dumps("now") + ":" + str(NOW)]

    def add(name, value):
        body = ",\n".join(json.dumps(entry, ensure_ascii=False, separators=(",", ":")) for entry in value)
        lines.append(json.dumps(name) + ":[\n" + body + "\n]")

    add("conversations", [{"name": name, **conversation} for name, conversation in chat_templates.CONVERSATIONS.items()])
    templates = []
    for name, (text, tokens) in chat_templates.TEMPLATES.items():
        results = {}
        for title, conversation in chat_templates.CONVERSATIONS.items():
            options = {key: value for key, value in conversation.items() if key != "variables"}
            variables = {**tokens, **conversation.get("variables", {})}
            results[title] = render(text, variables=variables, **options)
        templates.append({"name": name, "template": text, "tokens": tokens, "texts": results})
    add("templates", templates)
    lines.append('"variables":' + json.dumps(chat_expressions.VARIABLES, ensure_ascii=False))
    add("expressions", [[text, render(text, variables=chat_expressions.VARIABLES)]
                        for text in chat_expressions.TEMPLATES])
    path = pathlib.Path(__file__).parents[1] / "golden/chat.json"
    path.write_text("{\n" + ",\n".join(lines) + "\n}\n")
    cases = sum(len(template["texts"]) for template in templates) + len(chat_expressions.TEMPLATES)
    print(f"{path.stat().st_size} bytes, {cases} cases")


if __name__ == "__main__":
    main()
