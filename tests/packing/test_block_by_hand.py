"""Which batches are put side by side, what a block keeps of them, and when it is handed on."""

from __future__ import annotations

import numpy as np
import pytest

from pytest_longctx.packing.audit import Delivery
from pytest_longctx.packing.batch import PackedRow
from pytest_longctx.packing.block import LARGE, MOST_TOKENS, Block, Waiting, copied, fields_of, plain

NAMES = ("input_ids", "labels", "position_ids", "seq_idx", "attention_mask")


def column(*shape, dtype=np.int64):
    return np.arange(1, 1 + int(np.prod(shape)), dtype=dtype).reshape(shape)


def batch(*shape, **fields):
    return {"input_ids": column(*shape), "labels": column(*shape) + 100, **fields}


def varlen(*edges, longest=(3, 2), dtype=np.int32):
    said = np.array(edges, dtype=dtype)
    return {
        **{"cu_seq_lens_q": said, "cu_seq_lens_k": said},
        **{"max_length_q": longest[0], "max_length_k": longest[1]},
    }


def packed(size):
    return PackedRow(np.ones(size, dtype=np.int64), np.ones(size, dtype=np.int64), None)


def test_a_plain_batch():
    mask = np.ones((2, 3), dtype=np.bool_)
    fields = batch(2, 3, position_ids=column(2, 3), seq_idx=column(2, 3, dtype=np.int32), attention_mask=mask)
    found = plain({**fields, "num_items_in_batch": 4})
    assert list(found.columns) == list(NAMES)
    assert all(found.columns[name] is fields[name] for name in NAMES)
    assert [found.edges, found.longest] == [(), 0]
    dtypes = ["int64", "int64", "int64", "int32", "bool"]
    assert [found.kind[::2], [str(dtype) for dtype in found.kind[1::2]]] == [NAMES, dtypes]


def test_a_batch_with_borders():
    found = plain(batch(1, 5, **varlen(0, 3, 5)))
    assert [edges.tolist() for edges in found.edges] == [[0, 3, 5], [0, 3, 5]]
    assert found.longest == 2
    assert found.kind[-1] == "varlen"


@pytest.mark.parametrize(
    "fields",
    [
        {"seq_lengths": [[3]]},
        {"token_type_ids": column(1, 3)},
        {"labels": None},
        {"input_ids": None},
        {"labels": column(1, 4)},
        {"labels": column(1, 2)},
        {"labels": column(3)},
        {"position_ids": column(3, 1, 3)},
        {"position_ids": column(1, 3).astype(np.int16)},
        {"position_ids": column(1, 3).astype(np.uint64)},
        {"position_ids": column(1, 3) > 0},
        {"attention_mask": column(1, 3).astype(np.int8)},
        {"attention_mask": column(1, 3).astype(np.float32)},
        {"attention_mask": column(1, 3).astype(object)},
        {"attention_mask": column(1, 3).tolist()},
        varlen(0, 3, dtype=np.int64),
        varlen(0, 3, dtype=np.int16),
        varlen(3),
        {**varlen(0, 3), "cu_seq_lens_q": np.array([[0, 3]], dtype=np.int32)},
        {**varlen(0, 3), "cu_seq_lens_k": None},
        {**varlen(0, 3), "cu_seq_lens_k": np.array([0, 3])},
        {**varlen(0, 3), "max_length_q": None},
        {**varlen(0, 3), "max_length_k": np.int64(3)},
        {"cu_seq_lens_q": None, "max_length_k": 3},
    ],
    ids=lambda fields: ",".join(fields),
)
def test_anything_unusual_is_left_to_a_closer_look(fields):
    assert plain(batch(1, 3)) is not None
    assert plain({**batch(1, 3), **fields}) is None


@pytest.mark.parametrize("shape", [(0, 3), (3,), (1, 1, 3)])
def test_a_batch_that_is_no_table_of_tokens(shape):
    assert plain(batch(*shape)) is None


def test_the_shortest_borders_and_the_narrowest_integers():
    assert plain(batch(1, 3, **varlen(0, 3))).edges[0].tolist() == [0, 3]
    assert plain(batch(1, 3, position_ids=column(1, 3, dtype=np.int32))) is not None


def test_tensors():
    torch = pytest.importorskip("torch", reason="torch is not installed")
    fields = batch(1, 3, position_ids=torch.arange(3)[None])
    assert plain(fields).columns["position_ids"].tolist() == [[0, 1, 2]]
    assert plain({**fields, "position_ids": torch.arange(3.0)[None]}) is None


def test_a_batch_alone_lies_in_its_own_memory():
    fields = batch(2, 3)
    delivery = Delivery([packed(3)], fields)
    block = Block.alone(plain(fields), delivery, 7)
    (member,) = block.members
    assert np.shares_memory(block.flat("labels"), fields["labels"])
    assert block.flat("labels").tolist() == [101, 102, 103, 104, 105, 106]
    assert block.flat("seq_idx") is None
    assert [member.start, member.shape, member.first_row, member.size, block.size] == [0, (2, 3), 7, 6, 6]
    assert member.delivery is delivery


def test_rows_of_a_batch_where_none_are_shown():
    fields = batch(2, 3)
    (shown,) = Block.alone(plain(fields), Delivery([packed(3)] * 4, fields), 0).members
    (hidden,) = Block.alone(plain(fields), Delivery(None, fields), 0).members
    assert [shown.packed_rows, hidden.packed_rows] == [4, 2]


def test_batches_side_by_side_are_copied():
    first, second = batch(1, 2, **varlen(0, 2)), batch(1, 3, **varlen(0, 1, 3, longest=(2, 9)))
    block = Block.of_kind(plain(first))
    for number, fields in enumerate((first, second)):
        block.add(plain(fields), Delivery(None, fields), number)
    for fields in (first, second):
        fields["input_ids"][:] = fields["labels"][:] = -1
        fields["cu_seq_lens_q"][:] = -1
    assert block.flat("input_ids").tolist() == [1, 2, 1, 2, 3]
    assert [(member.start, member.shape, member.first_row) for member in block.members] == [
        (0, (1, 2), 0),
        (2, (1, 3), 1),
    ]
    given = fields_of(block, block.members[1])
    assert {name: np.asarray(value).tolist() for name, value in given.items()} == {
        **{"input_ids": [[1, 2, 3]], "labels": [[101, 102, 103]]},
        **{"cu_seq_lens_q": [0, 1, 3], "cu_seq_lens_k": [0, 1, 3], "max_length_q": 2, "max_length_k": 9},
    }


def test_fields_in_memory_of_their_own():
    fields = {"input_ids": column(1, 2), "max_length_q": 2}
    other = copied(fields)
    assert other["max_length_q"] == 2
    assert other["input_ids"].tolist() == [[1, 2]]
    assert not np.shares_memory(other["input_ids"], fields["input_ids"])


class Blocks(list):
    """What is handed on: the widths and first rows of the batches of each block."""

    def judge(self, block):
        assert block.size == sum(member.size for member in block.members)
        self.append([(member.shape[1], member.first_row) for member in block.members])


def handed_on(*given):
    """The blocks of some batches, (fields, packed rows), once the last of them is settled."""
    blocks = Blocks()
    waiting = Waiting(blocks.judge)
    for first, (fields, rows) in enumerate(given):
        assert waiting.take(Delivery(rows, fields), first)
    before = len(blocks)
    waiting.settle()
    waiting.settle()
    return blocks, before


def test_batches_wait_for_each_other():
    assert handed_on((batch(1, 2), None), (batch(2, 3), None)) == ([[(2, 0), (3, 1)]], 0)


@pytest.mark.parametrize(
    ("fields", "rows"),
    [
        (batch(1, 4, position_ids=column(1, 4)), None),
        ({**batch(1, 4), "labels": column(1, 4, dtype=np.int32)}, None),
        (batch(1, 4, **varlen(0, 4)), None),
        (batch(1, 4), [packed(4)]),
    ],
)
def test_another_kind_of_batch_does_not_wait_with_the_others(fields, rows):
    assert handed_on((batch(1, 2), None), (fields, rows)) == ([[(2, 0)], [(4, 1)]], 1)


def test_a_large_batch_is_a_block_of_its_own_in_its_turn():
    small, large = batch(1, LARGE), batch(1, LARGE + 1)
    assert handed_on((small, None), (large, None), (small, None)) == (
        [[(LARGE, 0)], [(LARGE + 1, 1)], [(LARGE, 2)]],
        2,
    )


def test_a_block_is_full_and_its_memory_used_again():
    fit = MOST_TOKENS // LARGE
    blocks, before = handed_on(*[(batch(1, LARGE), None)] * (2 * fit + 1))
    assert [len(block) for block in blocks] == [fit, fit, 1]
    assert before == 2


def test_a_block_is_full_before_it_overflows():
    sizes = [LARGE] * (MOST_TOKENS // LARGE - 1) + [LARGE - 1, 2, 1]
    blocks, _ = handed_on(*[(batch(1, size), None) for size in sizes])
    assert [[width for width, _ in block] for block in blocks] == [sizes[:-2], [2, 1]]


def test_rows_that_wait():
    waiting = Waiting(Blocks().judge)
    assert waiting.rows == 0
    waiting.take(Delivery(None, batch(2, 3)), 0)
    waiting.take(Delivery(None, batch(3, 3)), 2)
    assert waiting.rows == 5
    waiting.settle()
    assert waiting.rows == 0


@pytest.mark.parametrize(
    ("shape", "sizes", "taken"),
    [
        *[((1, 4), [2, 2], True), ((2, 4), [4, 4], True), ((300, 1), [1] * 300, True)],
        *[((2, 4), [4], False), ((2, 4), [4] * 3, False), ((1, 4), [], False)],
    ],
)
def test_rows_that_a_batch_cannot_show(shape, sizes, taken):
    blocks = Blocks()
    waiting = Waiting(blocks.judge)
    assert waiting.take(Delivery([packed(size) for size in sizes], batch(*shape)), 0) is taken
    assert (waiting.rows > 0) is taken


@pytest.mark.parametrize("given", [None, [1, 2], {"input_ids": [[1]], "labels": [[1]]}])
def test_what_is_no_plain_batch_is_not_taken(given):
    assert Waiting(Blocks().judge).take(Delivery([packed(1)], given), 0) is False
