"""How deep, how many and how long: what of a YAML text is still read, and what a user is told of the rest."""

from __future__ import annotations

import pytest

from pytest_longctx.contract.yaml import Place, YamlError, parse

DEEP = "nested more than 50 levels deep"
MANY = "more than 10,000 values, with aliases (*name) counted each time"


def refused(text):
    with pytest.raises(YamlError) as caught:
        parse(text)
    return caught.value.place, caught.value.message


def faults(text):
    return [(fault.place, fault.message) for fault in parse(text).faults]


def test_fifty_levels_are_read():
    data = parse("[" * 50 + "]" * 50).data
    for _ in range(49):
        (data,) = data
    assert data == []
    # The innermost value is a level, too.
    data = parse("[" * 49 + "7" + "]" * 49).data
    for _ in range(49):
        (data,) = data
    assert data == 7


@pytest.mark.parametrize("inside", ["", "7"])
def test_the_fifty_first_level_is_not(inside):
    lists = 51 if not inside else 50
    assert refused("[" * lists + inside + "]" * lists) == (Place(1, 51), DEEP)


def test_a_value_before_it_does_not_make_room_for_a_level():
    # `[1, ` is 4 columns; its list is the first level, 49 further ones stand in columns 5 to 53.
    assert refused("[1, " + "[" * 49 + "7" + "]" * 50) == (Place(1, 54), DEEP)
    assert parse("[1, " + "[" * 48 + "7" + "]" * 49).faults == []


def test_levels_of_aliases_are_counted_where_they_are_used():
    # The root is one level, `a` holds 24 lists, and `b` as many around it: 49 in all, then 50, then 51.
    def text(around):
        return "a: &a " + "[" * 24 + "]" * 24 + "\nb: " + "[" * around + "*a" + "]" * around

    assert parse(text(24)).faults == []
    assert parse(text(25)).faults == []
    # The last of the 24 lists of `a` stands in column 7 + 23.
    assert refused(text(26)) == (Place(1, 30), DEEP)


def test_aliases_count_as_the_values_they_stand_for():
    # The root, and 9 lists of 1,110 values each: 1 + 9 * 1,111 = 10,000.
    full = "- &a [" + "1," * 1110 + "]\n" + "- *a\n" * 8
    assert sum(map(len, parse(full).data)) == 9990
    # The value too many is the 1 in line 10.
    assert refused(full + "- 1\n") == (Place(10, 3), MANY)


def test_keys_count_as_well():
    # The root, and 2 for each key: 4,999 of them are 9,999, and 5,000 are 10,001.
    def text(keys):
        return "".join(f"k{number}: 1\n" for number in range(keys))

    assert len(parse(text(4999)).data) == 4999
    # The last line is `k4999: 1`.
    assert refused(text(5000)) == (Place(5000, 8), MANY)


@pytest.mark.parametrize(("zeros", "value"), [(38, 1), (39, 1)])
def test_forty_digits_are_read(zeros, value):
    assert parse(f"a: {'0' * zeros}1").data == {"a": value}


def test_forty_one_digits_are_not():
    assert faults(f"a: {'0' * 40}1") == [
        (Place(1, 4), f"the number {'0' * 37}… is out of range (64 bits)"),
    ]


@pytest.mark.parametrize(
    ("digits", "shown"), [(39, "9" * 39), (40, "9" * 40), (41, "9" * 37 + "…"), (42, "9" * 37 + "…")]
)
def test_a_number_out_of_range_is_shown_in_forty_signs(digits, shown):
    assert faults(f"a: {'9' * digits}") == [(Place(1, 4), f"the number {shown} is out of range (64 bits)")]


@pytest.mark.parametrize("zeros", [37, 38, 39])
def test_a_number_as_key_is_shown_in_forty_signs(zeros):
    shown = f"1.{'0' * min(zeros, 38)}"
    assert faults(f"1.{'0' * zeros}: x") == [
        (Place(1, 1), f"found the key '{shown}', expected text: put it in quotes"),
    ]


def test_a_key_that_is_refused_does_not_end_the_mapping():
    text = "1: x\na: 1\n<<: 5\nb: 2\nb: 3\nc: 4\nc: 5\n"
    assert faults(text) == [
        (Place(1, 1), "found the key '1', expected text: put it in quotes"),
        (Place(3, 1), "merge keys (<<) are not part of YAML 1.2: write the keys out"),
        (Place(5, 1), "the key stands twice, first in line 4"),
        (Place(7, 1), "the key stands twice, first in line 6"),
    ]
    assert parse(text).data == {"a": 1, "b": 2, "c": 4}


def test_the_place_of_an_escape_in_another_line_and_column():
    # Line 2; `a: "xyz` fills columns 1 to 7, `\U` 8 and 9, the digits begin in column 10.
    assert refused('b: 1\na: "xyz\\UFFFFFFFF"') == (
        Place(2, 10),
        "not YAML: a number or escape that does not exist",
    )


@pytest.mark.parametrize(("text", "place"), [("\x07", Place(1, 1)), ("\n\x07", Place(2, 1))])
def test_the_place_of_a_character_at_the_start_of_a_line(text, place):
    assert refused(text) == (place, "the character U+0007 is not allowed")
