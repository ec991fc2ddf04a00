"""What the adapters of trainers pass on and read off, with a stand-in for the trainer."""

from __future__ import annotations

import weakref
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from pytest_longctx.errors import DatasetError, MissingExtraError, PackingError
from pytest_longctx.packing.trainers import TrainerRequest, TrlSft, _OnCpu, tiny_model

datasets = pytest.importorskip("datasets")
pytest.importorskip("trl", reason="trl is not installed")

SAMPLES = [{"input_ids": np.array([1, 2]), "labels": np.array([-100, 2])}]
SAMPLES += [{"input_ids": np.array([3]), "labels": np.array([3])}]


def request(config=None, packer="ffd", feed_mode="all", resolve=Path):
    terms = SimpleNamespace(
        trainer=None if config is None else SimpleNamespace(config=config),
        packer=SimpleNamespace(name=packer),
        feed_mode=feed_mode,
        batch_size=3,
    )
    return TrainerRequest(SimpleNamespace(resolve=resolve), terms, None, None, None, None, None, None, None)


class StandIn(_OnCpu):
    """Its trainer has 70 rows of one token and two batches, and counts the targets of the first alone."""

    name = "stand_in"
    built = 0

    def build(self):
        self.built += 1
        rows = [{"input_ids": [number], "labels": [number]} for number in range(70)]
        return SimpleNamespace(
            train_dataset=datasets.Dataset.from_list(rows),
            args=SimpleNamespace(seed=1, device="cpu"),
            get_train_dataloader=lambda: [{"name": "one"}, {"name": "two"}],
            get_batch_samples=self.count,
            data_collator=lambda rows: {"rows": rows},
        )

    def count(self, batches, number, device):
        (batch,) = batches
        return [batch], {("one", 1, "cpu"): np.int64(7)}.get((batch["name"], number, device))


def test_every_row_and_every_batch_with_its_divisor():
    rows, batches = [], []
    for delivery in StandIn(request()).deliver():
        if delivery.rows is None:
            batches.append((delivery.batch["name"], delivery.normalizer))
        else:
            assert delivery.batch is None
            rows.append([row.ids.tolist() for row in delivery.rows])
    assert [len(block) for block in rows] == [64, 6]
    assert [ids for block in rows for ids in block] == [[number] for number in range(70)]
    assert batches == [("one", 7), ("two", None)]
    assert type(batches[0][1]) is int


def test_the_trainer_is_built_once():
    adapter = StandIn(request())
    assert adapter.trainer is adapter.trainer
    assert [adapter.built, adapter.window(), adapter.maker] == [1, None, "trainer stand_in"]


@pytest.mark.parametrize(
    ("packer", "lengths", "ids"), [("ffd", [[2, 1]], [[1, 2, 3]]), ("none", [[2], [1]], [[1, 2], [3]])]
)
def test_a_batch_of_samples_packed_together_or_not(packer, lengths, ids):
    rows = StandIn(request(packer=packer)).make_batch(SAMPLES)["rows"]
    assert [row["seq_lengths"] for row in rows] == lengths
    assert [row["input_ids"].tolist() for row in rows] == ids


@pytest.mark.parametrize("packer", ["bfd", "none", "trl_bfd"])
def test_only_the_packer_none_does_not_pack(packer):
    assert StandIn(request(packer=packer)).packs() is (packer != "none")


def test_settings():
    assert request().config == {}
    adapter = StandIn(request({"bf16": True, "seed": 4, "use_cpu": False, "disable_tqdm": False}))
    quiet = {"output_dir": adapter.folder, "use_cpu": True, "report_to": "none", "disable_tqdm": True}
    assert adapter.arguments(seed=5) == {
        **{"per_device_train_batch_size": 3, "bf16": True, "seed": 5},
        **quiet,
    }
    assert StandIn(request()).arguments()["bf16"] is False


def failing(error):
    def build(_):
        raise error

    return type("Failing", (StandIn,), {"build": build})(request())


def test_what_a_trainer_raises_is_told_by_its_name():
    with pytest.raises(PackingError, match=r"^trainer stand_in cannot be built: KeyError: 'x'$"):
        _ = failing(KeyError("x")).trainer


def test_errors_of_the_package_stay_as_they_are():
    with pytest.raises(DatasetError, match=r"^as it is$"):
        _ = failing(DatasetError("as it is")).trainer


def test_a_module_that_is_not_there():
    adapter = type("Lacking", (StandIn,), {"modules": ("no_such_module",)})(request())
    with pytest.raises(MissingExtraError, match=r"^packing\.trainer: stand_in needs no_such_module"):
        _ = adapter.trainer


def test_the_folder_goes_with_the_adapter_even_if_it_is_gone_already():
    adapter = StandIn(request())
    folder, gone = Path(adapter.folder), weakref.ref(adapter)
    assert folder.is_dir()
    folder.rmdir()
    del adapter
    assert gone() is None


@pytest.mark.parametrize("mode", ["admitted", "all"])
def test_masks_are_made_anew_only_of_rows_in_text(mode):
    fixed = TrlSft(request({}, feed_mode=mode))._fixed()
    assert fixed == ({"assistant_only_loss": False} if mode == "admitted" else {})


@pytest.mark.parametrize(("named", "there"), [("own.jinja", True), ("gone.jinja", False), (None, False)])
def test_a_template_beside_the_contract(tmp_path, named, there):
    (tmp_path / "own.jinja").write_text("")
    given = request({"chat_template_path": named}, resolve=lambda name: tmp_path / str(name))
    assert TrlSft(given)._fixed() == ({"chat_template_path": str(tmp_path / "own.jinja")} if there else {})


@pytest.mark.parametrize(
    ("contract", "own", "variant", "shape", "named", "refused"),
    [
        ("a", "b", None, "messages", "b.jinja", True),
        ("a", "b", "c", "alpaca", "b.jinja", True),
        ("a", "b", None, "prompt_completion", "b.jinja", False),  # no template is used
        ("a", "b", None, "messages", None, False),
        ("a", "a\n", None, "messages", "b.jinja", False),
        ("a\n", "b", "a", "messages", "b.jinja", False),  # TRL's training variant of b is a
    ],
)
def test_a_template_that_is_not_the_contracts(contract, own, variant, shape, named, refused):
    given = request({"chat_template_path": named})
    given = replace(given, dataset=SimpleNamespace(shape=shape), tokenizer=SimpleNamespace(template=contract))
    trainer = SimpleNamespace(processing_class=SimpleNamespace(chat_template=own), chat_template=variant)
    words = "^trainer trl_sft uses chat_template_path b.jinja, the contract another template: set "
    with pytest.raises(PackingError, match=words) if refused else nullcontext():
        TrlSft(given)._refuse_other_template(trainer)


def test_another_template_renders_nothing_of_rows_of_ids():
    given = replace(
        request({"chat_template_path": "b.jinja"}, feed_mode="admitted"),
        dataset=SimpleNamespace(shape="messages"),
        tokenizer=SimpleNamespace(template="a"),
    )
    TrlSft(given)._refuse_other_template(SimpleNamespace(processing_class=SimpleNamespace(chat_template="b")))


@pytest.mark.parametrize("limit", [None, np.int64(512)])
def test_limits_of_trl(limit):
    adapter = TrlSft(request({}))
    adapter.trainer = SimpleNamespace(args=SimpleNamespace(max_length=limit, packing=1))
    assert adapter.window() == limit
    assert type(adapter.window()) is (type(None) if limit is None else int)
    assert adapter.packs() is True


@pytest.mark.parametrize(
    ("of_collator", "of_tokenizer", "told"),
    [(7, 9, 7), (0, 9, 0), (None, 9, 9), (None, 0, 0), (None, None, None)],
)
def test_the_collator_tells_the_padding_before_the_tokenizer(of_collator, of_tokenizer, told):
    adapter = TrlSft(request({}))
    parts = {"data_collator": of_collator, "processing_class": of_tokenizer}
    adapter.trainer = SimpleNamespace(
        **{name: SimpleNamespace(pad_token_id=pad) for name, pad in parts.items()}
    )
    assert adapter.pad_token_id == told
    assert StandIn(request()).pad_token_id is None


def test_the_model_is_tiny():
    model = tiny_model(50)
    assert model.get_input_embeddings().weight.shape == (50, 8)
    assert sum(weights.numel() for weights in model.parameters()) < 2000
