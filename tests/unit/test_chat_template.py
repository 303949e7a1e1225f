"""Chats are rendered as the engine renders them."""

from typing import Any

import jinja2
import pytest

from inference import chat_template
from inference.chat_template import ChatTemplate, TemplateRefused

CHATML = (
    "{% for message in messages %}"
    "{{ '<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>\n' }}"
    "{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)
PARTS = (
    "{% for message in messages %}{% for part in message['content'] %}[{{ part.type }}:{{ part.text }}]"
    "{% endfor %}{% endfor %}"
)


def render(source: str, *messages: dict[str, Any], **fields: Any) -> str:
    return ChatTemplate(source, special_tokens={"bos_token": "<s>"}).render({"messages": list(messages), **fields})


def user(content: Any) -> dict[str, Any]:
    return {"role": "user", "content": content}


def test_a_chat_ends_where_the_assistant_begins() -> None:
    assert render(CHATML, user("Hi")) == "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n"
    assert render(CHATML, user("Hi"), add_generation_prompt=False) == "<|im_start|>user\nHi<|im_end|>\n"


def test_text_parts_are_joined_for_a_template_that_wants_text() -> None:
    parts = [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]

    assert "user\na\nb<|im_end|>" in render(CHATML, user(parts))


def test_empty_texts_are_left_out_where_text_is_wanted() -> None:
    parts = [{"type": "text", "text": text} for text in ("", "a", "", "b")]

    assert "user\na\nb<|im_end|>" in render(CHATML, user(parts))
    assert render(PARTS, user(parts)) == "[text:][text:a][text:][text:b]"


def test_a_template_sees_no_fields_but_those_that_the_engine_knows() -> None:
    source = "{% for m in messages %}{{ m | tojson }}{% endfor %}"

    assert render(source, user("a") | {"mood": 1, "name": "n"}) == '{"role": "user", "content": "a", "name": "n"}'
    assert "tool_call_id" in render(source, {"role": "tool", "content": "a", "tool_call_id": "1"})


@pytest.mark.parametrize("name", ["reasoning", "reasoning_content"])
def test_a_thought_has_both_of_its_names(name: str) -> None:
    source = "{{ messages[0].reasoning }}{{ messages[0].reasoning_content }}"

    assert render(source, {"role": "assistant", "content": "a", name: "hm"}) == "hmhm"


def test_the_line_by_which_a_coding_client_names_itself_is_left_out() -> None:
    line = "x-anthropic-billing-header: cch=1;"

    assert "system\nBe kind.<" in render(CHATML, {"role": "system", "content": f"{line}\nBe kind."})
    assert "system\n<" in render(CHATML, {"role": "system", "content": line})
    assert line in render(CHATML, user(line))


def test_text_becomes_a_part_for_a_template_that_wants_parts() -> None:
    assert render(PARTS, user("a")) == "[text:a]"
    assert (
        render(PARTS, user([{"type": "text", "text": "a"}, {"type": "text", "text": "b"}])) == "[text:a][text:b]"
    )


@pytest.mark.parametrize(
    "loop",
    [
        "{% for m in messages %}{% for p in m.content %}{{ p.text }}{% endfor %}{% endfor %}",
        "{% set content = messages[0].content %}{% for p in content %}{{ p.text }}{% endfor %}",
        "{% for m in messages %}{% for p in m['content'] | list %}{{ p.text }}{% endfor %}{% endfor %}",
        "{% for m in messages %}{% for p in m['content'][0:] %}{{ p.text }}{% endfor %}{% endfor %}",
    ],
)
def test_the_ways_to_loop_over_content_are_known(loop: str) -> None:
    assert render(loop, user("x")) == "x"


def test_nothing_said_is_an_empty_text() -> None:
    assert "assistant\n<|im_end|>" in render(CHATML, {"role": "assistant", "content": None})


def test_a_final_message_can_be_continued() -> None:
    spoken = {"role": "assistant", "content": "Well, "}

    assert render(CHATML, user("Hi"), spoken, continue_final_message=True).endswith("assistant\nWell, ")


def test_a_template_that_trims_is_continued_without_the_space() -> None:
    trimming = CHATML.replace("message['content']", "message['content'] | trim")
    spoken = {"role": "assistant", "content": "Well, "}

    assert render(trimming, user("Hi"), spoken, continue_final_message=True).endswith("assistant\nWell,")


def test_parts_can_be_continued_too() -> None:
    assert render(PARTS, user([{"type": "text", "text": "a "}]), continue_final_message=True) == "[text:a "


def test_an_empty_final_message_cannot_be_continued_in_parts() -> None:
    with pytest.raises(TemplateRefused):
        render(PARTS, {"role": "assistant", "content": None}, continue_final_message=True)


def test_developers_become_the_system_where_the_template_does_not_know_them() -> None:
    chat = [{"role": "system", "content": "a"}, user("Hi"), {"role": "developer", "content": "b"}]
    text = render(CHATML, *chat, add_generation_prompt=False)

    assert text == "<|im_start|>system\na\n\nb<|im_end|>\n<|im_start|>user\nHi<|im_end|>\n"


def test_one_developer_at_the_top_is_the_system() -> None:
    text = render(CHATML, {"role": "developer", "content": "b"}, user("Hi"), add_generation_prompt=False)

    assert text.startswith("<|im_start|>system\nb<|im_end|>")


def test_developers_stay_where_the_template_knows_them() -> None:
    source = "{% for m in messages %}{{ 'dev' if m.role == 'developer' else m.role }}{% endfor %}"

    assert render(source, {"role": "developer", "content": "b"}) == "dev"


def test_a_tool_calls_arguments_are_objects() -> None:
    source = "{% for c in messages[0].tool_calls %}{{ c.function.arguments | tojson }}{% endfor %}"
    calls = [{"function": {"name": "f", "arguments": a}} for a in ('{"a": "ü"}', "broken", "[1]", {"b": 1}, None)]
    text = render(source, {"role": "assistant", "content": None, "tool_calls": calls})

    assert text == '{"a": "ü"}{}{}{"b": 1}{}'


def test_a_tool_calls_arguments_nested_without_end_are_a_refusal() -> None:
    calls = [{"function": {"name": "f", "arguments": "[" * 100_000}}]
    with pytest.raises(TemplateRefused):
        render(CHATML, {"role": "assistant", "content": None, "tool_calls": calls})


def test_tools_documents_and_own_variables_reach_the_template_but_cannot_replace_the_chat() -> None:
    source = "{{ tools | length }}{{ documents | length }}{{ mood }}{{ messages[0].content }}{{ bos_token }}"
    fields = {"tools": [{}, {}], "documents": [{}], "chat_template_kwargs": {"mood": "!", "messages": "mine"}}

    assert render(source, user("Hi"), **fields) == "21!Hi<s>"


def test_a_variable_written_with_every_message_cannot_fill_the_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chat_template, "MAX_CHARACTERS", 10_000)
    source = "{% for m in messages %}{{ m.content + eos_token }}{% endfor %}"
    chat = [user("x")] * 10

    assert len(render(source, *chat, chat_template_kwargs={"eos_token": "e" * 999})) == 10_000
    with pytest.raises(TemplateRefused, match="more than 10000 characters"):
        render(source, *chat, chat_template_kwargs={"eos_token": "e" * 1000})


def test_generation_blocks_are_their_contents() -> None:
    assert render("a{% generation %}b{% endgeneration %}c", user("Hi")) == "abc"


def test_loop_controls_and_dates_work() -> None:
    source = "{% for m in messages %}{% break %}{% endfor %}{{ strftime_now('%Y') | length }}"

    assert render(source, user("Hi")) == "4"


@pytest.mark.parametrize(
    "source",
    [
        "{{ raise_exception('no') }}",
        "{{ 1 + messages }}",
        "{{ messages['x'].y.z }}",
        "{{ 1 // 0 }}",
        "{{ ''.__class__ }}",
    ],
)
def test_whatever_goes_wrong_in_a_template_is_a_refusal(source: str) -> None:
    with pytest.raises(TemplateRefused):
        render(source + "{{ x.y }}", user("Hi"))


def test_a_broken_template_is_found_when_it_is_loaded() -> None:
    with pytest.raises(jinja2.TemplateSyntaxError):
        ChatTemplate("{% for %}", special_tokens={})


def test_a_template_cannot_change_the_chat() -> None:
    with pytest.raises(TemplateRefused):
        render("{{ messages.append(1) }}", user("Hi"))
