"""Builds one chat per call, from a seed: support, coding, documents, everyday, parts."""

from __future__ import annotations

from typing import Any

from writer import Writer

Message = dict[str, Any]


def message(role: str, content: str) -> Message:
    """Return one chat message."""
    return {"role": role, "content": content}


def exchange(question: str, answer: str) -> list[Message]:
    """Return a user turn and the assistant's answer."""
    return [message("user", question), message("assistant", answer)]


def opening(writer: Writer, key: str, share: float) -> list[Message]:
    """Return a system message in `share` of the chats."""
    return [message("system", writer.one(key))] if writer.chance(share) else []


def turns(writer: Writer, most: int) -> int:
    """Return how many more exchanges follow the first: often none, rarely `most`."""
    return min(int(writer.random.expovariate(0.6)), most)


def bullets(lines: list[str], sign: str = "-") -> str:
    """Return the lines as a list, numbered when `sign` is empty."""
    return "\n".join(f"{sign or f'{number}.'} {line}" for number, line in enumerate(lines, 1))


def support(seed: str) -> list[Message]:
    """Return a conversation of a customer with a help desk."""
    writer = Writer(seed, "support")
    question = writer.fill("{*greeting} {*problem} ") + " ".join(writer.some("detail", writer.between(0, 4)))
    chat = [
        *opening(writer, "system", 0.6),
        *exchange(f"{question.strip()} {writer.one('ask')}", _support_answer(writer)),
    ]
    for _ in range(turns(writer, 4)):
        answer = _support_answer(writer) if writer.chance(0.3) else writer.one("reply")
        chat += exchange(writer.one("followup"), answer)
    if writer.chance(0.35):
        chat += exchange(writer.one("thanks"), writer.one("welcome"))
    return chat


def _support_answer(writer: Writer) -> str:
    steps = bullets(writer.some("step", writer.between(2, 8)), "")
    return writer.fill(f"{{*empathy}} {{*diagnosis}}\n\n{{*steps_intro}}\n{steps}\n\n{{*offer}}")


def coding(seed: str) -> list[Message]:
    """Return a programming question with its follow-ups, sometimes with a traceback."""
    writer = Writer(seed, "coding")
    question = writer.one("ask")
    if writer.chance(0.25):
        frames = "\n".join(writer.some("frame", writer.between(2, 12)))
        question += f"\n\nTraceback (most recent call last):\n{frames}\n{writer.one('error')}"
    chat = [*opening(writer, "system", 0.5), *exchange(question, _code_answer(writer))]
    for _ in range(turns(writer, 5)):
        answer = _code_answer(writer) if writer.chance(0.5) else writer.one("explain")
        chat += exchange(writer.one("followup"), answer)
    return chat


def _code_answer(writer: Writer) -> str:
    blocks = "\n\n".join(writer.some("block", writer.between(1, 2)))
    outro = " ".join(writer.some("outro", writer.between(0, 3)))
    return f"{writer.one('intro')}\n\n{blocks}\n\n{outro}".strip()


def coding_module(seed: str, size: int) -> list[Message]:
    """Return a request for a whole module, with an answer of about `size` characters."""
    writer = Writer(seed, "coding")
    question, code = writer.one("ask_module"), writer.one("module")
    while len(code) < size:
        code += f"\n\n{writer.one('method')}"
    return exchange(question, f"{writer.one('intro')}\n\n{code}\n```\n\n{writer.one('outro')}")


def document(writer: Writer, size: int) -> str:
    """Return a document of about `size` characters with headings and paragraphs."""
    text = writer.fill("{title}")
    while len(text) < size:
        text += f"\n\n## {writer.one('heading')}\n\n" + " ".join(
            writer.some("sentence", writer.between(2, 7))
        )
    return text


def log(writer: Writer, size: int) -> str:
    """Return a log with about as many tokens as a document of `size` characters."""
    text = writer.fill("{title}")
    while len(text) < 0.6 * size:
        text += f"\n{writer.one('log')}"
    return text


def documents(seed: str, size: int) -> list[Message]:
    """Return a question on a pasted document of about `size` characters, answered from its own lines."""
    writer = Writer(seed, "documents")
    count = writer.between(2, 8)
    writer.facts["count"] = str(count)
    text = log(writer, size) if writer.chance(0.15) else document(writer, size)
    lines = [line for line in text.replace(". ", ".\n").splitlines() if len(line) > 40]
    quoted = sorted(writer.random.sample(range(len(lines)), min(count, len(lines))))
    answer = f"{writer.one('summary_intro')}\n{bullets([lines[index] for index in quoted])}"
    chat = [*opening(writer, "system", 0.5), *exchange(f"{writer.one('ask')}\n\n{text}", answer)]
    for _ in range(turns(writer, 4)):
        chat += exchange(writer.one("followup"), writer.one("followup_answer"))
    return chat


def rewrite(seed: str, notes: int, size: int) -> list[Message]:
    """Return notes of about `notes` characters that become a document of about `size` characters."""
    writer = Writer(seed, "documents")
    return exchange(f"{writer.one('ask_rewrite')}\n\n{document(writer, notes)}", document(writer, size))


def everyday(seed: str) -> list[Message]:
    """Return small talk, a recipe, a trip, an email, an explanation, or a question in another language."""
    writer = Writer(seed, "everyday", "languages")
    makers = [_hello, _recipe, _travel, _mail, _explain, _foreign]
    make = writer.random.choices(makers, weights=[2, 3, 2, 3, 4, 5])[0]
    chat = [*opening(writer, "persona", 0.4), *make(writer)]
    for _ in range(turns(writer, 3)):
        chat += writer.random.choice(makers)(writer)
    return chat


def _hello(writer: Writer) -> list[Message]:
    return exchange(writer.one("hello"), writer.one("hello_answer"))


def _recipe(writer: Writer) -> list[Message]:
    ingredients = bullets(writer.some("ingredient", writer.between(3, 9)))
    steps = bullets(writer.some("cooking_step", writer.between(3, 9)), "")
    intro, tip = writer.one("recipe_intro"), writer.one("recipe_tip")
    return exchange(
        writer.one("ask_recipe"), f"{intro}\n\n**Ingredients**\n{ingredients}\n\n**Steps**\n{steps}\n\n{tip}"
    )


def _travel(writer: Writer) -> list[Message]:
    days = [" ".join(writer.some("visit", writer.between(2, 4))) for _ in range(writer.between(1, 5))]
    plan = "\n\n".join(f"Day {number}: {day}" for number, day in enumerate(days, 1))
    return exchange(writer.one("ask_travel"), plan)


def _mail(writer: Writer) -> list[Message]:
    lines = " ".join(writer.some("mail_line", writer.between(2, 6)))
    name = writer.one("first_name")
    return exchange(
        writer.one("ask_mail"), f"Dear {writer.one('first_name')},\n\n{lines}\n\nKind regards,\n{name}"
    )


def _explain(writer: Writer) -> list[Message]:
    return exchange(writer.one("ask_explain"), " ".join(writer.some("explain", writer.between(2, 8))))


def _foreign(writer: Writer) -> list[Message]:
    question, _, answer = writer.one("pair").partition(" | ")
    return exchange(question, answer)


def parts(seed: str) -> list[Message]:
    """Return an everyday chat whose contents are lists of text parts, as multimodal trainers store them."""
    return [
        {**turn, "content": [{"type": "text", "text": text} for text in turn["content"].split("\n\n")]}
        for turn in everyday(seed)
    ]
