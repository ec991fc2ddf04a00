from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_longctx.contract.yaml import MAX_NODES, Place, YamlError, parse, resolve


def value(text):
    document = parse(f"key: {text}")
    assert document.faults == []
    return document.data["key"]


# From the tables of YAML 1.2.2, section 10.3.2, and the traps of YAML 1.1.
@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1e-3", 0.001),
        ("1.0e-5", 1e-05),
        ("1E+2", 100.0),
        (".5", 0.5),
        ("5.", 5.0),
        ("-0.25", -0.25),
        ("12", 12),
        ("+12", 12),
        ("-12", -12),
        ("010", 10),
        ("0o17", 15),
        ("0x1f", 31),
        ("0xFF", 255),
        (".inf", math.inf),
        ("-.INF", -math.inf),
        ("+.Inf", math.inf),
        ("9223372036854775807", 2**63 - 1),
        ("-9223372036854775808", -(2**63)),
        ("null", None),
        ("Null", None),
        ("~", None),
        ("", None),
        ("true", True),
        ("TRUE", True),
        ("False", False),
        ("no", "no"),
        ("yes", "yes"),
        ("on", "on"),
        ("off", "off"),
        ("y", "y"),
        ("nULL", "nULL"),
        ("tRUE", "tRUE"),
        ("12:30", "12:30"),
        ("1_000", "1_000"),
        ("0b101", "0b101"),
        ("-0x1f", "-0x1f"),
        ("2027-01-31", "2027-01-31"),
        ("2027-01-31T10:00:00Z", "2027-01-31T10:00:00Z"),
        ("1e", "1e"),
        (".", "."),
        ("'5'", "5"),
        ('"1e-3"', "1e-3"),
        ("'null'", "null"),
        ("'~'", "~"),
    ],
)
def test_plain_scalars_follow_the_core_rules_of_yaml_1_2(text, expected):
    found = value(text)
    assert found == expected
    assert type(found) is type(expected)


def test_nan_is_a_number():
    assert math.isnan(value(".nan"))
    assert value("nan") == "nan"


@given(st.integers(-(2**63), 2**63 - 1))
@settings(deadline=None, max_examples=50)
def test_integers_come_back(number):
    assert resolve(str(number)) == number


@given(st.floats(allow_nan=False, allow_infinity=False))
@settings(deadline=None, max_examples=50)
def test_floats_come_back(number):
    assert resolve(repr(number)) == number


@pytest.mark.parametrize(
    "number", ["9223372036854775808", "-9223372036854775809", "0xffffffffffffffffff", "1e999"]
)
def test_numbers_beyond_64_bits_are_refused(number):
    (fault,) = parse(f"a: {number}").faults
    assert (fault.place, fault.key) == (Place(1, 4), ("a",))
    assert fault.message == f"the number {number} is out of range (64 bits)"


def test_a_huge_number_is_shown_short():
    (fault,) = parse("a: " + "9" * 100_000).faults
    assert fault.message == f"the number {'9' * 37}… is out of range (64 bits)"


def test_places_of_keys_and_values():
    document = parse("a: 1\nb:\n  c: {d: x,\n      e: [7, 8]}\n")
    assert document.data == {"a": 1, "b": {"c": {"d": "x", "e": [7, 8]}}}
    assert document.key(("a",)) == Place(1, 1)
    assert document.value(("a",)) == Place(1, 4)
    assert document.key(("b", "c")) == Place(3, 3)
    assert document.key(("b", "c", "e")) == Place(4, 7)
    assert document.value(("b", "c", "e", 1)) == Place(4, 14)
    assert document.key(("b", "c", "absent", "deeper")) == Place(3, 3)
    assert document.value(("b", "absent")) == Place(2, 1)
    assert document.key(("absent",)) == Place(1, 1)


def test_an_alias_has_its_own_keys_and_the_anchor_s_values():
    document = parse("a: &x {n: 1}\nb: *x\n")
    assert document.data == {"a": {"n": 1}, "b": {"n": 1}}
    assert document.key(("b",)) == Place(2, 1)
    assert document.key(("b", "n")) == Place(1, 8)


@pytest.mark.parametrize(
    ("text", "place", "message"),
    [
        ("a: 1\nb: 2\na: 3", Place(3, 1), "the key stands twice, first in line 1"),
        ("a: {b: 1, b: 2}", Place(1, 11), "the key stands twice, first in line 1"),
        ("1: x", Place(1, 1), "found the key '1', expected text: put it in quotes"),
        ("null: x", Place(1, 1), "found the key 'null', expected text: put it in quotes"),
        ("true: x", Place(1, 1), "found the key 'true', expected text: put it in quotes"),
        ("? [a]\n: x", Place(1, 3), "found a list or mapping as a key, expected text"),
        (
            "a: &x {b: 1}\nc:\n  <<: *x",
            Place(3, 3),
            "merge keys (<<) are not part of YAML 1.2: write the keys out",
        ),
        ('a: "x\\0"', Place(1, 4), "the text holds a NUL or half of a surrogate pair"),
        ('a: "\\ud800"', Place(1, 4), "the text holds a NUL or half of a surrogate pair"),
    ],
)
def test_what_is_refused_on_the_way(text, place, message):
    (fault,) = parse(text).faults
    assert (fault.place, fault.message) == (place, message)


def test_quoted_keys_are_text():
    assert (
        parse("'1': a\n'<<': b\n'no': c\nno_: d\nno: e").faults[0].message.startswith("the key stands twice")
    )
    assert parse("'1': a\n'<<': b").data == {"1": "a", "<<": "b"}


@pytest.mark.parametrize(
    ("text", "place", "message"),
    [
        (
            "a: !!python/object:os.system x",
            Place(1, 4),
            "found the tag 'tag:yaml.org,2002:python/object:os.syste': ",
        ),
        (
            "a: !!str 5",
            Place(1, 4),
            "found the tag 'tag:yaml.org,2002:str': tags are not allowed, leave it out",
        ),
        ("a: ! 5", Place(1, 4), "found the tag '!': tags are not allowed, leave it out"),
        ("a: [1, 2", Place(1, 9), "not YAML: while parsing a flow sequence, expected ',' or ']'"),
        ("a: *x", Place(1, 4), "not YAML: found undefined alias 'x'"),
        ("a: &x [*x]", Place(1, 4), "an alias (*name) inside its own anchor (&name)"),
        (
            "a: 1\n---\nb: 2",
            Place(2, 1),
            "not YAML: expected a single document in the stream, but found another",
        ),
        ("a: \x07", Place(1, 4), "the character U+0007 is not allowed"),
        ('a: "\\UFFFFFFFF"', None, "not YAML: a number or escape that does not exist"),
        (f"%YAML {'1' * 5000}.1\n---\na: 1", None, "not YAML: a number or escape that does not exist"),
        ("a:\n\t- 1", Place(2, 1), "not YAML: while scanning for the next token, found character '\\t'"),
    ],
)
def test_what_ends_the_reading(text, place, message):
    with pytest.raises(YamlError) as caught:
        parse(text)
    assert caught.value.message.startswith(message)
    assert place is None or caught.value.place == place


@pytest.mark.parametrize("text", ["[" * 100_000, "a: " + "{a: " * 51, "- " * 100_000, "? " * 100_000])
def test_depth_is_bounded(text):
    with pytest.raises(YamlError, match="nested more than 50 levels deep"):
        parse(text)


def test_forty_nine_lists_are_read():
    document = parse("[" * 49 + "]" * 49)
    for _ in range(48):
        (document.data,) = document.data
    assert document.data == []


def test_aliases_cannot_nest_deeper_than_text():
    lines = ["a0: &a0 [1]"] + [f"a{n}: &a{n} [*a{n - 1}]" for n in range(1, 60)]
    with pytest.raises(YamlError, match="nested more than 50 levels deep"):
        parse("\n".join(lines))


def test_the_alias_bomb_is_defused():
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 10)]
    with pytest.raises(YamlError) as caught:
        parse("\n".join(lines))
    assert caught.value.message == "more than 10,000 values, with aliases (*name) counted each time"


def test_the_number_of_values_is_bounded():
    parse("[" + "1," * (MAX_NODES - 1) + "]")
    with pytest.raises(YamlError, match="more than 10,000 values"):
        parse("[" + "1," * MAX_NODES + "]")


YAML_SIGNS = st.sampled_from(
    [
        *"abz019 \n\t:,[]{}-?&*!|>'\"%@`#~.\\",
        ": ",
        "- ",
        "&a ",
        "*a",
        "\n  ",
        "<<: ",
        "!!",
        "0x",
        "\\U",
        "---",
        "\x85",
        "é",
    ]
)


@given(st.lists(YAML_SIGNS, max_size=40).map("".join))
@settings(deadline=None, max_examples=600)
def test_random_text_is_read_or_refused(text):
    try:
        faults = parse(text).faults
    except YamlError as error:
        faults = [error]
    assert all(min(fault.place.line, fault.place.column) >= 1 for fault in faults)
    assert all(fault.message.isprintable() for fault in faults)


def test_the_place_of_an_escape_that_does_not_exist():
    with pytest.raises(YamlError) as caught:
        parse('b: 1\nc: 2\na: "xy\\UFFFFFFFF"')
    # Line 3; x stands in column 5, the digits begin behind \U, in column 9.
    assert caught.value.place == Place(3, 9)


def test_the_place_of_a_character_that_is_not_allowed():
    with pytest.raises(YamlError) as caught:
        parse("a: 1\nb: 2\nc: x\x07")
    assert caught.value.place == Place(3, 5)
    with pytest.raises(YamlError) as caught:
        parse("a: 1\nb: \x07")
    assert caught.value.place == Place(2, 4)


def test_a_number_out_of_range_leaves_a_zero():
    assert parse("a: 1e999").data == {"a": 0}


def test_keys_may_begin_with_any_sign():
    assert parse("(a: 1\n$: 2\n<: 3\n'<<': 4").data == {"(a": 1, "$": 2, "<": 3, "<<": 4}
