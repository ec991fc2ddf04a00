"""Builds chats in which the assistant calls tools and reads their results."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, NamedTuple

from chats import Message, exchange, message, opening
from writer import Writer

if TYPE_CHECKING:
    from collections.abc import Callable


class Call(NamedTuple):
    """One use of a tool, from the user's question to the assistant's answer."""

    question: str
    arguments: dict[str, Any]
    result: dict[str, Any]
    answer: str


def tool(name: str, description: str, required: list[str], **properties: str) -> dict[str, Any]:
    """Return the JSON schema of a function; `properties` gives a type and a description as `type: text`."""
    fields = {}
    for key, text in properties.items():
        kind, _, meaning = text.partition(": ")
        fields[key] = {"type": kind, "description": meaning}
    parameters = {"type": "object", "properties": fields, "required": required}
    return {
        "type": "function",
        "function": {"name": name, "description": description, "parameters": parameters},
    }


TOOLS = {
    "get_weather": tool(
        "get_weather",
        "Get the weather forecast for a city.",
        ["city"],
        city="string: Name of the city, without the country",
        days="integer: Number of days to look ahead, 1 to 7",
    ),
    "track_order": tool(
        "track_order",
        "Look up where an order is.",
        ["order_id"],
        order_id="string: Order number as printed on the invoice",
    ),
    "convert_currency": tool(
        "convert_currency",
        "Convert an amount with today's exchange rate.",
        ["amount", "source", "target"],
        amount="number: Amount of money to convert",
        source="string: ISO code of the currency to convert from",
        target="string: ISO code of the currency to convert to",
    ),
    "book_meeting": tool(
        "book_meeting",
        "Put a meeting into the calendar.",
        ["title", "weekday", "hour"],
        title="string: Subject of the meeting",
        weekday="string: Day of the week",
        hour="integer: Full hour of the start, 0 to 23",
        guests="array: First names of the guests",
    ),
    "search_products": tool(
        "search_products",
        "Search the catalogue and return the best matches.",
        ["query"],
        query="string: Words to look for",
        max_price="number: Highest price in euros",
        in_stock="boolean: Only products that can be shipped now",
    ),
}


def _weather(writer: Writer) -> Call:
    city, days = writer.one("city"), writer.between(1, 7)
    first, weekdays = writer.between(0, 6), writer.lists["weekday"]
    forecast = [
        {
            "day": weekdays[(first + day) % 7],
            "low": writer.between(-5, 14),
            "high": writer.between(15, 34),
            "sky": writer.one("sky"),
        }
        for day in range(days)
    ]
    lines = "; ".join(f"{day['day']} {day['sky']}, {day['low']} to {day['high']} degrees" for day in forecast)
    question = f"What will the weather be like in {city} over the next {days} days?"
    answer = f"The forecast for {city}: {lines}."
    return Call(question, {"city": city, "days": days}, {"forecast": forecast}, answer)


def _order(writer: Writer) -> Call:
    order, status, city, day = (writer.one(key) for key in ("order", "status", "city", "date"))
    result = {"order_id": order, "status": status, "location": city, "expected": day, "carrier": None}
    question = f"Where is my order {order}? It should have been here on {writer.one('weekday')}."
    answer = f"Your order {order} is {status} in {city}. It is expected on {day}."
    return Call(question, {"order_id": order}, result, answer)


def _currency(writer: Writer) -> Call:
    source, target = writer.random.sample(writer.lists["currency"], 2)
    amount, rate = writer.between(10, 5000), writer.between(20, 1900) / 100
    total = round(amount * rate, 2)
    arguments = {"amount": amount, "source": source, "target": target}
    answer = f"{amount} {source} are {total:,.2f} {target} at a rate of {rate}."
    question = f"How much is {amount} {source} in {target}?"
    return Call(question, arguments, {"rate": rate, "total": total}, answer)


def _meeting(writer: Writer) -> Call:
    topic, day, hour = writer.one("topic"), writer.one("weekday"), writer.between(8, 18)
    guests = writer.some("first_name", writer.between(1, 4))
    arguments = {"title": f"Talk about {topic}", "weekday": day, "hour": hour, "guests": guests}
    question = f"Set up a meeting about {topic} on {day} at {hour} with {' and '.join(guests)}."
    result = {"ok": True, "room": writer.between(100, 499), "conflicts": []}
    answer = f"Done. The meeting is on {day} at {hour}:00 in room {result['room']}."
    return Call(question, arguments, result, answer)


def _search(writer: Writer) -> Call:
    product, limit = writer.one("product"), writer.between(50, 900)
    found = [
        {
            "name": f"{writer.one('color')} {product}",
            "price": writer.between(20, limit),
            "rating": writer.between(20, 50) / 10,
        }
        for _ in range(writer.between(0, 9))
    ]
    answer = f"I found {len(found)} results for {product} up to {limit} euros."
    if found:
        best = max(found, key=lambda item: item["rating"])
        answer += f" The best rated is the {best['name']} for {best['price']} euros ({best['rating']} of 5)."
    arguments = {"query": product, "max_price": limit, "in_stock": writer.chance(0.5)}
    question = f"Show me a {product} for less than {limit} euros."
    return Call(question, arguments, {"results": found}, answer)


MAKERS: dict[str, Callable[[Writer], Call]] = {
    "get_weather": _weather,
    "track_order": _order,
    "convert_currency": _currency,
    "book_meeting": _meeting,
    "search_products": _search,
}


def tool_chat(seed: str) -> tuple[list[Message], list[dict[str, Any]]]:
    """Return messages and the tools offered; some questions need two calls at once."""
    writer = Writer(seed, "tools", "everyday")
    names = writer.random.sample(sorted(TOOLS), writer.between(1, 4))
    chat = opening(writer, "system", 0.6)
    for _ in range(1 + min(int(writer.random.expovariate(0.9)), 3)):
        chat += _round(writer, writer.random.choices(names, k=1 + writer.chance(0.2)))
    if writer.chance(0.3):
        chat += exchange(writer.one("hello"), writer.one("hello_answer"))
    return chat, [TOOLS[name] for name in names]


def _round(writer: Writer, names: list[str]) -> list[Message]:
    calls = [MAKERS[name](writer) for name in names]
    requests = [
        {"type": "function", "function": {"name": name, "arguments": call.arguments}}
        for name, call in zip(names, calls, strict=True)
    ]
    results = [
        {**message("tool", json.dumps(call.result)), "name": name}
        for name, call in zip(names, calls, strict=True)
    ]
    thought = "Let me look that up." if writer.chance(0.3) else ""
    return [
        message("user", " Also: ".join(call.question for call in calls)),
        {**message("assistant", thought), "tool_calls": requests},
        *results,
        message("assistant", " ".join(call.answer for call in calls)),
    ]
