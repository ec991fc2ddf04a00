"""The pipeline that a contract names: what is fed, what is expected, and what stands in messages."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from pytest_longctx.contract.stages import PackingSection
from pytest_longctx.errors import LongctxError, PackingError
from pytest_longctx.extensions import Extensions
from pytest_longctx.packing import pipeline as pipeline_module
from pytest_longctx.packing.pipeline import build_pipeline
from pytest_longctx.testing.examples import Case

CASE = Case([{"input_ids": list(range(size)), "labels": list(range(size))} for size in (3, 8, 9, 5)])


class Backend:
    """Fifty ids."""

    def __init__(self, pad=0, eos=2):
        self.pad_token_id, self.eos_token_id = pad, eos

    def __len__(self):
        return 50


def piped(plan=None, backend=None, extensions=None, **terms):
    """The pipeline over samples of 3, 8, 9 and 5 tokens, with a capacity of 8."""
    return build_pipeline(
        SimpleNamespace(max_tokens_per_bin=8),
        PackingSection(**terms),
        dataset=None,
        samples=CASE.samples,
        plan=plan,
        tokenizer=SimpleNamespace(backend=backend or Backend()),
        extensions=extensions or Extensions(),
    )


def fed(pipeline):
    """The number of tokens of each sample in the rows that come, row by row."""
    return [[len(row.ids) for row in delivery.rows] for delivery in pipeline.deliver()]


def test_without_a_window_what_fits_is_admitted():
    pipeline = piped(packer="none", collator="padded")
    expected = pipeline.expected
    assert expected.lengths.tolist() == [3, 8, 0, 5]
    assert expected.fed.tolist() == [True, True, False, True]
    assert [expected.capacity, expected.batch_size, expected.vocabulary, expected.row_stride] == [
        8,
        1,
        50,
        None,
    ]
    assert fed(pipeline) == [[3], [8], [5]]
    assert pipeline.maker == "none + padded"
    assert pipeline.window() is None


def test_a_plan_tells_what_is_admitted():
    plan = SimpleNamespace(length=np.array([0, 8, 7, 0]))
    pipeline = piped(plan, packer="none", collator="padded", batch_size=2, row_stride=7)
    assert pipeline.expected.lengths.tolist() == [0, 8, 7, 0]
    assert pipeline.expected.fed.tolist() == [False, True, True, False]
    assert [pipeline.expected.batch_size, pipeline.expected.row_stride] == [2, 7]
    assert fed(pipeline) == [[8, 7]]


def test_all_samples_are_fed_whole_where_the_contract_says_so():
    plan = SimpleNamespace(length=np.array([0, 8, 7, 0]))
    pipeline = piped(plan, packer="none", collator="padded", feed="all")
    assert pipeline.expected.lengths.tolist() == [0, 8, 7, 0]
    assert pipeline.expected.fed.tolist() == [True] * 4
    assert fed(pipeline) == [[3], [8], [9], [5]]


@pytest.mark.parametrize(
    ("pad", "eos", "expected"), [(0, 2, 0), (4, 2, 4), (None, 2, 2), (None, None, 0), (None, 0, 0)]
)
def test_rows_are_padded_with(pad, eos, expected):
    pipeline = piped(backend=Backend(pad, eos), packer="none", collator="padded", batch_size=2)
    assert pipeline.expected.pad_token_id == expected
    batch = next(iter(pipeline.deliver())).batch
    assert batch["input_ids"][0, 3:].tolist() == [expected] * 5


def test_rows_are_padded_with_what_the_collator_is_told():
    collator = {"name": "padded", "config": {"pad_token_id": 6}}
    pipeline = piped(backend=Backend(4, 2), packer="none", collator=collator, batch_size=2)
    assert pipeline.pad_token_id() == 6
    batch = next(iter(pipeline.deliver())).batch
    assert batch["input_ids"][0, 3:].tolist() == [6] * 5
    told = {"name": "padded", "config": {"pad_token_id": None}}
    assert piped(backend=Backend(4, 2), packer="none", collator=told).pad_token_id() == 4


@pytest.mark.parametrize(("packer", "shape"), [("none", (2, 5)), ("ffd", (1, 8)), ("zigzag", (1, 8))])
def test_a_batch_of_samples_put_together(packer, shape):
    samples = [CASE.rows[0], CASE.rows[3]]
    known = Extensions(packers={"zigzag": list})
    batch = piped(packer=packer, collator="padded", extensions=known).make_batch(
        [{name: np.array(ids) for name, ids in sample.items()} for sample in samples]
    )
    assert batch["input_ids"].shape == shape


def test_registered_packers_and_collators_come_with_their_settings():
    def mine(samples, capacity, *, note):
        said.append((note, capacity))
        return [{"input_ids": sample["input_ids"], "labels": sample["labels"]} for sample in samples]

    def alike(rows, *, pad_token_id=0, note=""):
        said.append((note, pad_token_id))
        return {name: np.array([rows[0][name]]) for name in ("input_ids", "labels")}

    said = []
    pipeline = piped(
        packer={"name": "mine", "config": {"note": "a"}},
        collator={"name": "alike", "config": {"note": "b"}},
        extensions=Extensions(packers={"mine": mine}, collators={"alike": alike}),
        backend=Backend(pad=4),
    )
    assert fed(pipeline) == [[3], [8], [5]]
    assert said == [("a", 8), *[("b", 0)] * 3]


@pytest.mark.parametrize(
    ("terms", "message"),
    [
        (
            {"packer": "fdd"},
            r"^packing\.packer: there is no packer 'fdd'; did you mean ffd\? Known: bfd, ffd, none, trl_",
        ),
        ({"packer": "zzzzzz"}, r"^packing\.packer: there is no packer 'zzzzzz'\. Known: bfd, "),
        ({"collator": "paded"}, r"there is no collator 'paded'; did you mean padded\? Known: block_mask, "),
        ({"trainer": "sfft"}, r"there is no trainer 'sfft'"),
    ],
)
def test_unknown_names(terms, message):
    with pytest.raises(LongctxError, match=message):
        piped(**terms)


def test_what_fails_is_named():
    def fails(*_):
        raise KeyError("lost")

    broken = Extensions(packers={"mine": fails}, collators={"yours": fails})
    with pytest.raises(LongctxError, match=r"^packer mine gave int, expected an iterable of packed rows"):
        fed(piped(packer="mine", extensions=Extensions(packers={"mine": lambda *_: 3})))
    with pytest.raises(LongctxError, match=r"^collator yours raised KeyError: 'lost'"):
        fed(piped(packer="none", collator="yours", extensions=broken))
    with pytest.raises(LongctxError, match=r"^mine \+ padded raised KeyError: 'lost'"):
        piped(packer="mine", collator="padded", extensions=broken).audit(CASE.samples)
    with pytest.raises(LongctxError, match=r"^collator yours gave a list, expected a mapping"):
        fed(piped(packer="none", collator="yours", extensions=Extensions(collators={"yours": list})))

    yours = piped(packer="none", collator="yours", extensions=broken)
    with pytest.raises(LongctxError, match=r"^collator yours raised KeyError"):
        yours.make_batch([{"input_ids": np.array([1]), "labels": np.array([1])}])


@pytest.mark.parametrize("packer", ["ffd", "none", "trl_bfd"])
def test_no_packer_is_called_where_no_sample_is_admitted(packer):
    pipeline = piped(SimpleNamespace(length=np.zeros(4, np.int64)), packer=packer, collator="padded")
    words = r"^no sample is admitted, expected one at least: see window::policy and dataset::rows$"
    with pytest.raises(PackingError, match=words):
        pipeline.audit(CASE.samples)


def test_a_sample_of_one_token_is_a_sample():
    one = SimpleNamespace(length=np.array([1, 0, 0, 0]))
    pipeline = piped(one, packer="none", collator="padded")
    assert pipeline.expected.fed.tolist() == [True, False, False, False]
    assert fed(pipeline) == [[1]]


def test_a_trainer_is_asked_for_what_it_should_deliver():
    def adapter(request):
        asked.append(request)
        return SimpleNamespace(maker="mine", deliver=lambda: [], make_batch=dict, window=lambda: 6)

    asked = []
    plan = SimpleNamespace(length=np.array([0, 8, 7, 0]))
    known = Extensions(trainers={"mine": adapter})
    pipeline = piped(plan, packer="none", trainer="mine", extensions=known)
    (request,) = asked
    assert request.fed.tolist() == [3, 8, 9, 5]
    assert request.planned.tolist() == [0, 8, 7, 0]
    assert [pipeline.maker, pipeline.window(), pipeline.deliver()] == ["mine", 6, []]
    assert sum(len(row["input_ids"]) for row in request.pack()) == 3 + 8 + 9 + 5


def test_a_trainer_that_is_fed_what_is_admitted():
    def adapter(request):
        asked.append(request.fed.tolist())
        return SimpleNamespace(maker="mine", deliver=list, make_batch=dict, window=lambda: None)

    asked = []
    plan = SimpleNamespace(length=np.array([0, 8, 7, 0]))
    piped(plan, trainer="mine", feed="admitted", extensions=Extensions(trainers={"mine": adapter}))
    assert asked == [[0, 8, 9, 0]]


@pytest.mark.parametrize("options", [{}, {"batch_size": 3}])
def test_packers_get_the_map_options_that_the_contract_has(options, monkeypatch):
    got = []
    monkeypatch.setattr(pipeline_module, "shipped_packers", lambda given: got.append(given) or {"ffd": list})
    piped(packer="ffd", collator="padded", map_kwargs=options)
    assert got == [options]
