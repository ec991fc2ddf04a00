"""What shipped packers give of four samples, and what TRL's are called with; TRL is not needed here."""

from __future__ import annotations

import warnings
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from pytest_longctx.packing import packers
from pytest_longctx.packing.packers import joined, one_a_row, shipped_packers
from pytest_longctx.testing import Case

SAMPLES = [
    {"input_ids": [1, 2], "labels": [-100, 2]},
    {"input_ids": [3, 4, 5, 6], "labels": [-100, 4, 5, 6]},
    {"input_ids": [7], "labels": [7]},
    {"input_ids": [8, 9, 10], "labels": [-100, -100, 10]},
]
ADMITTED = Case(SAMPLES, 6).admitted


def shown(rows):
    return [(row["input_ids"].tolist(), row["labels"].tolist(), row["seq_lengths"]) for row in rows]


class TestOwn:
    def test_samples_of_a_row_in_their_order(self):
        row = joined(ADMITTED, [3, 0, 2])
        assert shown([row]) == [([8, 9, 10, 1, 2, 7], [-100, -100, 10, -100, 2, 7], [3, 2, 1])]
        assert (row["input_ids"].dtype, row["labels"].dtype) == (np.int64, np.int64)
        assert list(row) == ["input_ids", "labels", "seq_lengths"]

    def test_no_packing(self):
        rows = shown(one_a_row(ADMITTED, 6))
        assert rows == [
            (sample["input_ids"], sample["labels"], [len(sample["labels"])]) for sample in SAMPLES
        ]
        assert shown(shipped_packers({})["none"](ADMITTED, 6)) == rows

    def test_first_and_best_fit(self):
        # 4, 3, 2, 1 tokens in rows of 7: the first has room for the 3, then both have none for the 2.
        for name in ("ffd", "bfd"):
            rows = shown(shipped_packers({})[name](ADMITTED, 7))
            assert [ids for ids, _, _ in rows] == [[3, 4, 5, 6, 8, 9, 10], [1, 2, 7]]
            assert [labels for _, labels, _ in rows] == [[-100, 4, 5, 6, -100, -100, 10], [-100, 2, 7]]
            assert [lengths for _, _, lengths in rows] == [[4, 3], [2, 1]]

    def test_first_and_best_fit_differ(self):
        # 10 leaves 5 of 15, 7 and 6 leave 2: the last 2 fits both, and the second exactly.
        case = Case([{"input_ids": [size] * size, "labels": [size] * size} for size in (10, 7, 6, 2)], 15)
        lengths = {
            name: [row["seq_lengths"] for row in shipped_packers({})[name](case.admitted, 15)]
            for name in ("ffd", "bfd")
        }
        assert lengths == {"ffd": [[10, 2], [7, 6]], "bfd": [[10], [7, 6, 2]]}

    def test_each_row_is_made_when_it_is_asked_for(self):
        rows = shipped_packers({})["ffd"](ADMITTED, 4)
        assert shown([next(rows), next(rows)]) == [
            ([3, 4, 5, 6], [-100, 4, 5, 6], [4]),
            ([8, 9, 10, 7], [-100, -100, 10, 7], [3, 1]),
        ]


class TestFolder:
    def test_is_there_within_and_gone_behind(self):
        with packers._folder() as folder:
            assert Path(folder).is_dir()
            assert Path(folder).name.startswith("longctx-")
            Path(folder, "file").write_text("", encoding="utf-8")
        assert not Path(folder).exists()

    def test_is_gone_behind_an_error(self):
        with pytest.raises(KeyError), packers._folder() as folder:
            raise KeyError
        assert not Path(folder).exists()

    def test_may_have_been_removed(self):
        with packers._folder() as folder:
            Path(folder).rmdir()
        assert not Path(folder).exists()


@pytest.fixture
def calls(monkeypatch):
    """What TRL, datasets and Arrow are called with: each sample comes back as a row."""
    found = []

    def write(samples, file):
        Path(file).write_bytes(b"arrow")
        found.append(("written", samples, file))

    def pack(*arguments):
        found.append(("packed", *arguments))
        return "dataset"

    def rows(dataset):
        found.append(("read", dataset))
        yield from SAMPLES

    datasets = SimpleNamespace(from_file=lambda file: found.append(("opened", file)) or "file")
    modules = {"trl": SimpleNamespace(pack_dataset=pack), "datasets": SimpleNamespace(Dataset=datasets)}
    monkeypatch.setattr(packers, "import_extra", lambda name, *more: found.append(more) or modules[name])
    for name, value in {"write_arrow": write, "arrow_rows": rows, "undisturbed": nullcontext}.items():
        monkeypatch.setattr(packers, name, value)
    return found


class TestTrl:
    @pytest.mark.parametrize("strategy", ["bfd", "bfd_split", "wrapped"])
    def test_what_it_is_called_with(self, strategy, calls):
        options = {"batch_size": 3}
        assert list(shipped_packers(options)[f"trl_{strategy}"](ADMITTED, 6)) == SAMPLES
        needs = ("trl", f"packing.packer: trl_{strategy}")
        (_, _, file) = calls[2]
        assert calls == [
            *(needs, needs),
            ("written", ADMITTED, file),
            ("opened", str(file)),
            ("packed", "file", 6, strategy, options),
            ("read", "dataset"),
        ]
        assert calls[4][-1] is not options
        assert not file.parent.exists()

    def test_one_that_is_left_midway_leaves_no_folder_and_no_warning(self, calls):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            rows = shipped_packers({})["trl_bfd"](ADMITTED, 6)
            assert next(rows) == SAMPLES[0]
            folder = calls[2][-1].parent
            assert folder.is_dir()
            rows.close()
        assert not folder.exists()


def test_names():
    assert list(shipped_packers({})) == ["ffd", "bfd", "none", "trl_bfd", "trl_bfd_split", "trl_wrapped"]
