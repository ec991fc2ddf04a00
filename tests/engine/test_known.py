"""Whoever measures the rows, a contract's evidence is the same."""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from pytest_longctx.cache import settings_key
from pytest_longctx.contract import load_contract
from pytest_longctx.dataset import open_dataset
from pytest_longctx.dataset.parts import Part
from pytest_longctx.engine import jobs_of, known, shards_of
from pytest_longctx.engine.division import place
from pytest_longctx.engine.known import check_complete
from pytest_longctx.engine.shard import Done, Job, _begin, run_shard
from pytest_longctx.errors import LongctxError
from pytest_longctx.evidence import BrokenLinkError, Evidence
from pytest_longctx.settings import Settings
from pytest_longctx.tokens.tokenizer import load_tokenizer
from tests.cache.test_store import assert_same

EXAMPLES = Path(__file__).parents[2] / "examples"
WORDS = ["why", "not", "ä", "1024", "the", "answer", "is"]


@dataclass
class Project:
    """A contract on rows of its own."""

    folder: Path
    told: list[str] = field(default_factory=list)

    def rows(self, count: int = 60, file: str = "chats.jsonl") -> None:
        random = np.random.default_rng(0)
        lines = []
        for number in range(count):
            texts = [" ".join(random.choice(WORDS, random.integers(0, 30))) for _ in range(2)]
            roles = ("user", "bot" if number % 17 == 16 else "assistant")
            messages = [{"role": role, "content": text} for role, text in zip(roles, texts, strict=True)]
            lines.append(json.dumps({"uid": f"row {number % 50}", "messages": messages}))
            lines += ["{broken"] * (number % 23 == 22)
        (self.folder / file).write_text("\n".join(lines) + "\n", encoding="utf-8")

    def contract(self, **dataset: Any) -> Any:
        template = dataset.pop("template", str(EXAMPLES / "chatml.jinja"))
        terms = {
            "contract": 1,
            "tokenizer": {"path": str(EXAMPLES / "tokenizer"), "chat_template": template},
            "dataset": {"path": "*.jsonl", **dataset},
        }
        (self.folder / "sft.yaml").write_text(yaml.safe_dump(terms))
        return load_contract(self.folder / "sft.yaml")

    def measured(self, contract: Any, **settings: Any) -> Any:
        return Evidence(contract, settings=Settings(tell=self.told.append, **settings)).measured


@pytest.fixture
def project(tmp_path, monkeypatch):
    monkeypatch.setattr(known, "FEW", -1)
    monkeypatch.setattr("pytest_longctx.engine.division.SHARD_BYTES", 1000)
    found = Project(tmp_path)
    found.rows()
    found.rows(20, "more.jsonl")
    return found


def first_lines(project):
    """Lines of the first shard of 1,000 bytes: up to the first line end from there on."""
    text = (project.folder / "chats.jsonl").read_bytes()
    return text[: text.index(b"\n", 999) + 1].count(b"\n")


def job_of(contract, folder):
    return Job.of(contract, settings_key(load_tokenizer(contract), contract.supervision), folder)


@pytest.mark.parametrize("columns", [{}, {"id": "uid"}], ids=["row ids", "own ids, some twice"])
def test_two_processes_give_what_one_gives(project, tmp_path, columns):
    contract = project.contract(**columns)
    alone = project.measured(contract)
    assert alone.rejected["broken_json"] == 2
    assert_same(project.measured(contract, jobs=2), alone)
    assert_same(project.measured(contract, jobs=2, cache=tmp_path / "cache"), alone)
    assert project.told == []


def test_processes_leave_all_rows_in_the_cache(project, tmp_path, monkeypatch):
    contract = project.contract()
    project.measured(contract, jobs=2, cache=tmp_path / "cache")
    monkeypatch.setattr("pytest_longctx.tokens.sample.Sampler.finish", None)  # nothing is measured again
    monkeypatch.setattr(known, "in_processes", None)
    monkeypatch.setattr(known, "FEW", 10)  # the rows of a role that the template refuses are tried again
    project.measured(contract, jobs=2, cache=tmp_path / "cache")


def test_a_template_that_reads_the_clock_is_measured_anew_each_time(project, tmp_path):
    text = (EXAMPLES / "chatml.jinja").read_text(encoding="utf-8")
    (tmp_path / "clock.jinja").write_text("{% if false %}{{ strftime_now('%Y') }}{% endif %}" + text)
    contract = project.contract(template="clock.jinja")
    assert_same(project.measured(contract, jobs=2, cache=tmp_path / "cache"), project.measured(contract))
    assert not list((tmp_path / "cache").glob("*/*.arrow"))


def test_a_template_that_does_not_end_is_told_as_without_processes(project, monkeypatch):
    monkeypatch.setattr("pytest_longctx.tokens.template.MAX_TEXT", 100)
    contract = project.contract()
    monkeypatch.setattr(
        known, "in_processes", lambda job, parts, jobs: (Done(part, refused="much") for part in parts)
    )
    with pytest.raises(BrokenLinkError, match="made a text of more than 100 characters"):
        project.measured(contract, jobs=2)
    shards = len(shards_of(open_dataset(contract.dataset, contract)))
    lines = first_lines(project)
    assert project.told == [f"{shards} shards are measured here; of chats.jsonl, lines 1 to {lines}: much"]


def test_a_dead_shard_is_told_with_its_file_and_lines(project, monkeypatch):
    def dead(job, parts, jobs):
        yield Done(parts[0])
        raise known.DeadShardError(parts[1])

    monkeypatch.setattr(known, "in_processes", dead)
    with pytest.raises(BrokenLinkError) as found:
        project.measured(project.contract(), jobs=2)
    place, died = str(found.value).split(": ")
    assert place.startswith(f"chats.jsonl, lines {first_lines(project) + 1} to ")
    assert died == "the process that measured it died 3 times"


def test_the_shards_that_come_back_are_those_of_the_plan():
    parts = [Part(0), Part(1)]
    check_complete(parts, [Done(Part(1)), Done(Part(0))])
    for wrong in ([Done(Part(0))], [Done(Part(0)), Done(Part(0))], [*map(Done, parts), Done(Part(2))]):
        with pytest.raises(LongctxError, match="2 shards were planned"):
            check_complete(parts, wrong)


def test_a_shard_measures_only_what_is_not_known(project, tmp_path):
    contract = project.contract()
    (tmp_path / "store").mkdir()
    job = job_of(contract, tmp_path / "store")
    part = shards_of(open_dataset(contract.dataset, contract))[0]
    first = run_shard(job, part)
    _begin.cache_clear()
    second = run_shard(job, part)
    _begin.cache_clear()
    assert first.rows == second.rows == first_lines(project)
    assert len(first.packs) == 1
    assert second.packs == ()


def test_a_contract_that_changes_meanwhile_is_not_used(project, tmp_path):
    contract = project.contract()
    job = replace(job_of(contract, tmp_path), sha256="0" * 64)
    assert run_shard(job, Part(0)).refused == f"{contract.path} changed while the run went on"
    _begin.cache_clear()


def test_a_node_with_another_environment_keeps_nothing(project, tmp_path):
    """Its entries would stand under a key that names libraries they were not made with."""
    (tmp_path / "store").mkdir()
    job = replace(job_of(project.contract(), tmp_path / "store"), settings="0" * 40)
    refused = run_shard(job, Part(0)).refused
    assert refused.endswith(" has other libraries, or another tokenizer, than the run")
    assert not list((tmp_path / "store").iterdir())
    _begin.cache_clear()


@pytest.mark.parametrize(
    ("part", "shown"),
    [
        (Part(0), "rows.jsonl"),
        (Part(0, 0, 20), "rows.jsonl, lines 1 to 2"),
        (Part(0, 20, 40), "rows.jsonl, lines 3 to 4"),
        (Part(0, 40, 49), "rows.jsonl, lines 5 to 5"),
    ],
)
def test_the_place_of_a_shard(tmp_path, part, shown):
    path = tmp_path / "rows.jsonl"
    path.write_text('{"a": 12}\n' * 4 + '{"a": 12}')
    assert place(path, part) == shown


def test_the_place_of_row_groups(tmp_path):
    assert place(tmp_path / "rows.parquet", Part(0, 2, 5)) == "rows.parquet, row groups 2 to 4"


def test_how_many_processes(project, monkeypatch):
    contract = project.contract()
    dataset = open_dataset(contract.dataset, contract)
    monkeypatch.setattr("pytest_longctx.engine.division.cores", lambda: 8)
    assert jobs_of(3, dataset) == 3
    assert jobs_of(None, dataset) == 1  # too small to be worth it
    monkeypatch.setattr("pytest_longctx.engine.division.WORTH_BYTES", 100)
    assert jobs_of(None, dataset) == 4
    assert jobs_of(None, dataset, workers=2) == 2
    assert jobs_of(None, dataset, workers=20) == 1
