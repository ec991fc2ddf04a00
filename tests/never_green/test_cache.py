"""A cache that is damaged, full, out of reach or of other rows never makes a run green, or red."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

CONTRACT = "--longctx-contract=contracts/sft.yaml"


@pytest.fixture(autouse=True)
def at_a_desk(monkeypatch):
    monkeypatch.delenv("CI", raising=False)


def packs(pytester):
    return sorted((pytester.path / ".pytest_cache").rglob("*.arrow"))


@pytest.fixture
def warm(project, pytester):
    """A contract that holds, with its rows in the cache."""
    project()
    assert pytester.runpytest(CONTRACT).ret == 0
    assert len(packs(pytester)) == 1


def spoil(pytester):
    """One answer of the dataset becomes empty."""
    path = pytester.path / "data" / "chats.jsonl"
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    rows[3]["messages"][1]["content"] = ""
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


def test_a_row_that_changed_is_measured(warm, pytester, not_green):
    spoil(pytester)
    not_green(1, "present", "chat-3")
    not_green(1, "present", "chat-3", args=("--longctx-jobs=2",))


def test_a_row_that_offends_does_so_from_the_cache(project, pytester, not_green):
    project()
    spoil(pytester)
    first = not_green(1, "present", "chat-3")
    assert len(packs(pytester)) == 1
    again = not_green(1, "present", "chat-3")
    assert again.result.parseoutcomes() == first.result.parseoutcomes()


@pytest.mark.parametrize("damage", ["half", "empty", "other"])
def test_damage_hides_nothing(warm, pytester, not_green, damage):
    (pack,) = packs(pytester)
    whole = pack.read_bytes()
    pack.write_bytes({"half": whole[: len(whole) // 2], "empty": b"", "other": whole[::-1]}[damage])
    spoil(pytester)
    not_green(1, "present", "chat-3")
    assert pack not in packs(pytester)


@pytest.mark.parametrize(
    ("words", "broken"),
    [
        (
            "could not keep all rows: No space left on device",
            "def fail(folder, content):\n    raise OSError(errno.ENOSPC, 'No space left on device')\n"
            "import pytest_longctx.cache.store as store\nstore.write_pack = fail\n",
        ),
        (
            "is not used: Read-only file system",
            "def fail(self, *a, **k):\n    raise OSError(errno.EROFS, 'Read-only file system')\n"
            "import pytest_longctx.cache.folder as folder\nfolder.CacheFolder._lock = fail\n",
        ),
    ],
    ids=["full disk", "read-only folder"],
)
def test_a_cache_that_cannot_be_written_changes_no_verdict(project, pytester, not_green, words, broken):
    project()
    pytester.makeconftest("import errno\n" + broken)
    holds = pytester.runpytest_subprocess(CONTRACT)
    assert holds.ret == 0
    assert words in " ".join(holds.stdout.str().split())
    spoil(pytester)
    not_green(1, "present", "chat-3", words, apart=True)


def test_a_folder_without_permission_to_write(warm, pytester, not_green):
    """As root nothing is forbidden: the run goes on as ever."""
    folder = Path(pytester.path, ".pytest_cache", "d", "longctx")
    spoil(pytester)
    places = [folder, *folder.rglob("*")]
    for place in places:
        place.chmod(0o555 if place.is_dir() else 0o444)
    try:
        not_green(1, "present", "chat-3")
    finally:
        for place in places:
            place.chmod(0o755)


def test_an_interrupt_leaves_whole_rows(project, pytester, not_green):
    project(dataset={"path": "registered:chats"}, packing=None)
    pytester.makeconftest(
        "from pathlib import Path\n"
        "def chats():\n"
        "    for number in range(600):\n"
        "        if number == 550 and Path('stop').exists():\n"
        "            raise KeyboardInterrupt\n"
        "        question = dict(role='user', content=f'a {number}')\n"
        "        yield {'messages': [question, dict(role='assistant', content='b')]}\n"
        "def pytest_longctx_datasets():\n    return {'chats': chats}\n"
    )
    (pytester.path / "stop").touch()
    not_green(2, "KeyboardInterrupt", apart=True)
    assert len(packs(pytester)) == 1
    (pytester.path / "stop").unlink()
    report = "--longctx-report=report.json"
    assert pytester.runpytest(CONTRACT, report).ret == 0
    first = json.loads((pytester.path / "report.json").read_text())["contracts"]
    assert pytester.runpytest(CONTRACT, report, "--longctx-cache=off").ret == 0
    assert json.loads((pytester.path / "report.json").read_text())["contracts"] == first
    assert first[0]["evidence"]["ledger"]["samples"] == 600
