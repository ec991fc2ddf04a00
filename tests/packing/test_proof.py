"""What is proven of many batches at once is what every invariant says of each of them."""

from __future__ import annotations

import tracemalloc
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_longctx.packing import audit as audit_module
from pytest_longctx.packing import block as block_module
from pytest_longctx.packing.audit import Delivery, audit
from pytest_longctx.packing.block import plain
from pytest_longctx.packing.collators import padded
from pytest_longctx.packing.packers import shipped_packers
from pytest_longctx.packing.pipeline import packed_deliveries
from pytest_longctx.packing.proof import Prover
from pytest_longctx.testing import HARMLESS, MUTANTS, Case
from pytest_longctx.testing.examples import EXAMPLE, flat

TOTALS = ("counts", "batches", "rows", "row_tokens", "width_tokens", "piece_tokens", "targets")
TOTALS += ("expected_targets", "fragments", "idle_tokens")
PADDED = {"padded": padded, "flat": flat}


def told(deliveries, case):
    """All that an audit tells, as comparable values."""
    found = audit(deliveries, case.samples, case.expected, "mine")
    shown = found.example
    columns = ("start", "end", "sample", "offset", "shuffled")
    return {
        **{name: getattr(found, name) for name in TOTALS},
        "witnesses": {name: witnesses for name, witnesses in found.witnesses.items() if witnesses},
        "row_lengths": found.row_lengths.tolist(),
        "packed_row": found.packed_row.tolist(),
        "example": [getattr(shown.pieces, name).tolist() for name in columns],
        "edges": shown.edges.tolist(),
        "first_row": shown.first_row,
        "ids": shown.batch.ids.tolist(),
        "labels": shown.batch.labels.tolist(),
        "layouts": [(layout.dialect, *(part.tolist() for part in layout.flat)) for layout in shown.layouts],
    }


@pytest.fixture
def unproven(monkeypatch):
    """Within it nothing is proven: each batch is looked at."""

    def tell(deliveries, case):
        with monkeypatch.context() as patch:
            patch.setattr(Prover, "able", False)
            return told(deliveries, case)

    return tell


@pytest.fixture
def looked_at(monkeypatch):
    """The deliveries that were not proven sound."""
    looked = []
    look = audit_module._Pass._look

    def spy(work, delivery, fields, first):
        looked.append(delivery)
        look(work, delivery, fields, first)

    monkeypatch.setattr(audit_module._Pass, "_look", spy)
    return looked


@pytest.fixture(params=["together", "alone"])
def size(request, monkeypatch):
    """Batches put together, and each taken by itself, as large ones are."""
    if request.param == "alone":
        monkeypatch.setattr(block_module, "LARGE", 0)


@pytest.mark.parametrize("mutant", [*MUTANTS, *HARMLESS], ids=lambda mutant: mutant.name)
def test_same_findings_as_without_a_proof(mutant, size, unproven):
    case = replace(mutant.case, batch_size=mutant.batch_size)
    assert told(mutant.deliveries(), case) == unproven(mutant.deliveries(), case)


def delivered(case, packer="ffd", collator="flat", batch_size=1):
    parts = (shipped_packers({})[packer], PADDED[collator], case.admitted, case.capacity, batch_size)
    return list(packed_deliveries(*parts))


@pytest.mark.parametrize("batch_size", [1, 3])
@pytest.mark.parametrize("collator", PADDED)
def test_sound_batches_are_proven(collator, batch_size, size, looked_at):
    case = replace(EXAMPLE, batch_size=batch_size)
    found = audit(delivered(case, "ffd", collator, batch_size), case.samples, case.expected, "mine")
    assert not +found.counts
    assert looked_at == []
    assert sorted(found.packed_row.tolist()) == sorted([*found.packed_row[found.packed_row >= 0], -1])


def test_torch_tensors_and_trainers_own_batches_are_proven(looked_at):
    torch = pytest.importorskip("torch")
    batches = [
        {name: torch.from_numpy(value) if hasattr(value, "dtype") else value for name, value in batch.items()}
        for batch in (delivery.batch for delivery in delivered(EXAMPLE))
    ]
    found = audit([Delivery(None, batch) for batch in batches], EXAMPLE.samples, EXAMPLE.expected, "mine")
    assert not +found.counts
    assert looked_at == []
    assert found.rows == len(batches)
    assert found.row_tokens == int(EXAMPLE.expected.lengths.sum())


def test_one_bad_batch_leaves_the_others_of_its_block_to_a_look(looked_at):
    deliveries = delivered(EXAMPLE)
    deliveries[1].batch["labels"][0, 4] = 77
    found = audit(deliveries, EXAMPLE.samples, EXAMPLE.expected, "mine")
    assert found.counts["labels_preserved"] == 1
    assert found.witnesses["labels_preserved"][0].row == 1
    assert looked_at == deliveries


def test_memory_that_a_collator_uses_again_is_copied():
    memory = {}

    def collate(rows):
        batch = flat(rows)
        for name in ("input_ids", "labels", "position_ids", "seq_idx", "cu_seq_lens_q", "cu_seq_lens_k"):
            own = memory.setdefault(name, np.zeros(200, batch[name].dtype))[: batch[name].size]
            own[:] = batch[name].ravel()
            batch[name] = own.reshape(batch[name].shape)
        return batch

    parts = (shipped_packers({})["ffd"], collate, EXAMPLE.admitted, EXAMPLE.capacity, 1)
    found = audit(packed_deliveries(*parts), EXAMPLE.samples, EXAMPLE.expected, "mine")
    assert not +found.counts
    shown = found.example
    assert shown.batch.ids.ravel().tolist() == [
        token
        for sample in shown.pieces.sample.tolist()
        for token in EXAMPLE.rows[sample]["input_ids"][: EXAMPLE.expected.lengths[sample]]
    ]


def test_memory_does_not_grow_with_the_batches(monkeypatch):
    """Batches of 4,096 tokens that nobody keeps: eight times as many take 64 bytes more for each sample."""
    monkeypatch.setattr(block_module, "MOST_TOKENS", 1 << 14)
    peaks = []
    for number in (10, 80):
        ids = [np.arange(512) + 512 * place for place in range(8 * number)]
        case = Case([{"input_ids": part, "labels": part} for part in ids], capacity=512, batch_size=8)
        samples, expected = case.samples, case.expected
        deliveries = packed_deliveries(shipped_packers({})["none"], flat, case.admitted, 512, 8)
        tracemalloc.start()
        assert not +audit(deliveries, samples, expected, "mine").counts
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[1] - peaks[0] < 64 * (640 - 80)
    # A block and its samples hold 28 and 8 bytes a token; the rest is the batch shown and scratch memory.
    assert peaks[1] < 4 * (1 << 14) * 36


def test_blocks_are_bounded(monkeypatch, looked_at):
    monkeypatch.setattr(block_module, "MOST_TOKENS", 50)
    found = audit(delivered(EXAMPLE), EXAMPLE.samples, EXAMPLE.expected, "mine")
    assert not +found.counts
    assert looked_at == []
    assert found.row_tokens == int(EXAMPLE.expected.lengths.sum())


def test_samples_alike_where_looked_at_are_told_apart(unproven, looked_at):
    """80 ids each, of which one differs, at a place of its own: no few of them tell all samples apart."""
    rows = [np.arange(1, 81) for _ in range(40)]
    for place, row in enumerate(rows):
        row[place + 20] = 90
    rows += rows[:3]
    case = Case([{"input_ids": row, "labels": row} for row in rows], capacity=160)
    assert told(delivered(case), case) == unproven(delivered(case), case)
    deliveries = delivered(case)
    looked_at.clear()
    found = audit(deliveries, case.samples, case.expected, "mine")
    assert looked_at == []
    assert not +found.counts


def test_equal_ids_with_other_labels_are_told_apart(looked_at):
    ids = [5, 6, 7, 8]
    case = Case(
        [
            {"input_ids": ids, "labels": [-100, -100, *ids[2:]]},
            {"input_ids": ids, "labels": [-100, *ids[1:]]},
        ],
        capacity=4,
    )
    deliveries = delivered(case, "none")[::-1]
    found = audit(deliveries, case.samples, case.expected, "mine")
    assert not +found.counts
    assert looked_at == []
    assert found.packed_row.tolist() == [1, 0]


FIELDS = (
    "input_ids",
    "labels",
    "position_ids",
    "seq_idx",
    "attention_mask",
    "cu_seq_lens_q",
    "cu_seq_lens_k",
)
IDS = st.integers(min_value=0, max_value=5)


@st.composite
def cases(draw):
    rows = []
    for _ in range(draw(st.integers(1, 8))):
        ids = draw(st.lists(IDS, min_size=2, max_size=7))
        start = draw(st.integers(0, len(ids)))
        rows.append({"input_ids": ids, "labels": [-100] * start + ids[start:]})
    return Case(rows, capacity=draw(st.integers(7, 20)), vocabulary=draw(st.sampled_from([None, 5, 6])))


@settings(deadline=None, max_examples=400)
@given(cases(), st.sampled_from(sorted(PADDED)), st.integers(1, 3), st.booleans(), st.data())
def test_a_changed_number_is_found_as_without_a_proof(case, collator, batch_size, rows_seen, data):
    case = replace(case, batch_size=batch_size)
    deliveries = delivered(case, data.draw(st.sampled_from(["ffd", "none"])), collator, batch_size)
    batch = data.draw(st.sampled_from(deliveries)).batch
    name = data.draw(st.sampled_from([name for name in FIELDS if name in batch] + ["max_length_q", ""]))
    if name == "max_length_q" and name in batch:
        batch[name] = data.draw(st.integers(0, 20))
    elif name in FIELDS:
        value = batch[name].ravel()
        value[data.draw(st.integers(0, len(value) - 1))] = data.draw(
            st.sampled_from([-100, -1, 0, 1, 2, 3, 7])
        )
        batch[name] = value.reshape(batch[name].shape)
        if name == "input_ids":
            batch[name] = np.abs(batch[name])
    if not rows_seen:
        normalizer = data.draw(st.sampled_from([None, 3]))
        deliveries = [Delivery(None, delivery.batch, normalizer) for delivery in deliveries]
    # What packed them may not know the contract's capacity.
    capacity = data.draw(st.sampled_from([case.capacity, 3, 8, 15]))
    case = replace(case, capacity=capacity, batch_size=data.draw(st.integers(1, 3)))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Prover, "able", False)
        expected = told(deliveries, case)
    assert told(deliveries, case) == expected


@pytest.mark.parametrize(
    "change",
    [
        {"seq_lengths": [[5]]},
        {"token_type_ids": np.zeros((1, 24))},
        {"position_ids": np.zeros((3, 1, 24), np.int64)},
        {"position_ids": np.zeros((1, 24), np.int8)},
        {"position_ids": np.zeros((1, 24))},
        {"labels": np.zeros((1, 23), np.int64)},
        {"labels": None},
        {"attention_mask": np.zeros((1, 1, 24, 24), np.bool_)},
        {"attention_mask": {}},
        {"cu_seq_lens_q": None},
        {"cu_seq_lens_q": np.array([0, 24])},
        {"cu_seq_lens_q": np.zeros((1, 2), np.int32)},
        {"max_length_k": np.int64(24)},
    ],
    ids=str,
)
def test_what_is_unusual_is_not_plain(change):
    batch = flat([{"input_ids": np.arange(24), "labels": np.arange(24), "seq_lengths": [24]}])
    assert plain(batch) is not None
    assert plain({**batch, **change}) is None
