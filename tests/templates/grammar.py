"""One grammar of conversations, for every template: name → messages and tools."""

from __future__ import annotations

from typing import Any


def user(content: Any) -> dict[str, Any]:
    return {"role": "user", "content": content}


def answer(content: Any, **keys: Any) -> dict[str, Any]:
    return {"role": "assistant", "content": content, **keys}


def call(name: str, arguments: Any, id_: str = "call00001") -> dict[str, Any]:
    return {"id": id_, "type": "function", "function": {"name": name, "arguments": arguments}}


def result(content: str, name: str = "get_weather", id_: str = "call00001") -> dict[str, Any]:
    return {"role": "tool", "name": name, "content": content, "tool_call_id": id_}


SYSTEM = {"role": "system", "content": "Answer kindly and briefly."}
WEATHER = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "Weather of a city",
        "parameters": {
            "type": "object",
            "properties": {"city": {"type": "string", "description": "Its name"}},
            "required": ["city"],
        },
    },
}
ARGUMENTS = {"city": "Rome", "days": 3, "wind": True, "limit": None, "near": ["Ostia", 1.5], "b": {"a": "z"}}
PARIS, ROME = call("get_weather", {"city": "Paris"}), call("get_weather", ARGUMENTS)

_PLAIN: dict[str, list[dict[str, Any]]] = {
    "one_turn": [user("What is the capital of France?"), answer("It is Paris.")],
    "system": [SYSTEM, user("Who wrote Emma?"), answer("Jane Austen did.")],
    "several_turns": [
        user("Name a prime."),
        answer("Seven."),
        user("Another one, please."),
        answer("Eleven."),
        user("Thanks!"),
        answer("You are welcome."),
    ],
    "system_several_turns": [
        SYSTEM,
        user("Hi!"),
        answer("Hello there."),
        user("Bye!"),
        answer("Goodbye now."),
    ],
    "last_turn_user": [user("Hi!"), answer("Hello there."), user("Still here?")],
    "empty_answer": [user("Say nothing."), answer("")],
    "empty_user": [user(""), answer("You said nothing.")],
    "empty_earlier_answer": [user("Say nothing."), answer(""), user("Good."), answer("Indeed.")],
    "emoji": [user("🙂 or 🙃?"), answer("👩‍👩‍👧‍👦 and 🇫🇷, e\u0301 and é")],
    "right_to_left": [user("ما هي عاصمة فرنسا؟"), answer("باريس هي العاصمة. שלום")],
    "long_word": [user("x" * 3000), answer("Donaudampfschifffahrt" * 120)],
    "white_space": [user("  Two spaces\n\nand lines \t"), answer("\n  Kept or stripped? \n\n")],
    "one_letter": [user("a"), answer("a"), user("t"), answer("s")],
    "same_texts": [user("Echo"), answer("Echo"), user("Echo"), answer("Echo")],
    "markup": [user("Use {{ braces }} & <b>tags</b>"), answer('```json\n{"a": [1, 2]}\n``` & "quotes" \\n')],
    "unknown_role": [user("Hi!"), {"role": "bot", "content": "Hello there."}],
    "reasoning": [user("2 + 2?"), answer("Four.", reasoning_content="Two and two make four.")],
    "reasoning_twice": [
        user("2 + 2?"),
        answer("Four.", reasoning_content="Two and two make four."),
        user("3 + 3?"),
        answer("Six.", reasoning_content="Three and three make six."),
    ],
    "think_in_content": [user("2 + 2?"), answer("<think>\nTwo and two.\n</think>\n\nFour.")],
    "parts": [
        user([{"type": "text", "text": "What is the capital?"}]),
        answer([{"type": "text", "text": "It is Paris."}]),
    ],
}
_WITH_TOOLS: dict[str, list[dict[str, Any]]] = {
    "tools_unused": [user("Hi!"), answer("Hello there.")],
    "tools_system": [SYSTEM, user("Hi!"), answer("Hello there.")],
    "tool_call": [
        user("Weather in Paris?"),
        answer("", tool_calls=[PARIS]),
        result('{"degrees": 21}'),
        answer("It is 21 degrees in Paris."),
    ],
    "tool_call_with_text": [
        user("Weather in Rome?"),
        answer("Let me look that up.", tool_calls=[ROME]),
        result("sunny"),
        answer("Sunny all day."),
    ],
    "two_tool_calls": [
        user("Paris and Rome?"),
        answer("", tool_calls=[PARIS, call("get_weather", {"city": "Rome"}, "call00002")]),
        result("rain"),
        result("sun", id_="call00002"),
        answer("Rain there, sun here."),
        user("Thanks!"),
        answer("Any time."),
    ],
    "tool_call_last": [user("Weather in Paris?"), answer("", tool_calls=[PARIS])],
    "tool_calls_null": [user("Hi!"), answer("Hello there.", tool_calls=None)],
    "tool_call_content_null": [
        user("Weather in Paris?"),
        answer(None, tool_calls=[PARIS]),
        result("rain"),
        answer("Rain it is."),
    ],
    "arguments_as_text": [
        user("Weather in Paris?"),
        answer("", tool_calls=[call("get_weather", '{"city": "Paris"}')]),
        result("rain"),
        answer("Rain it is."),
    ],
}
CASES: dict[str, tuple[list[dict[str, Any]], list[dict[str, Any]] | None]] = {
    **{name: (messages, None) for name, messages in _PLAIN.items()},
    **{name: (messages, [WEATHER]) for name, messages in _WITH_TOOLS.items()},
}
