"""One run at a time per settings; a bound on the size; a folder that cannot be used stops nobody."""

from __future__ import annotations

import os
import threading

import pytest

from pytest_longctx.cache import CacheFolder, Store, folder
from pytest_longctx.contract import SupervisionSection
from pytest_longctx.tokens.build import measure
from tests.tokens.characters import characters, chat


def fill(cache, settings, *texts):
    rows = [chat("hi", text, name=text) for text in texts]
    with cache.store(settings) as store:
        measure(rows, "messages", characters(), SupervisionSection(), known=store)
    return rows


def packs(path):
    return sorted(path.glob("*/*.arrow"))


def test_entries_of_other_settings_are_not_found(tmp_path):
    rows = fill(CacheFolder(tmp_path), "one", "a")
    with CacheFolder(tmp_path).store("other") as store:
        assert store.missing(rows) == 1
    with CacheFolder(tmp_path).store("one") as store:
        assert store.missing(rows) == 0


def test_the_least_recently_used_go_first(tmp_path):
    cache = CacheFolder(tmp_path)
    fill(cache, "old", "a")
    fill(cache, "used", "b")
    for age, path in enumerate(packs(tmp_path)):
        os.utime(path, (age, age))
    fill(cache, "old", "a")  # of use again
    size = max(path.stat().st_size for path in packs(tmp_path))
    fill(CacheFolder(tmp_path, most_bytes=size), "old", "a")
    assert [path.parent.name for path in packs(tmp_path)] == ["old"]


def test_a_bound_of_nothing_keeps_nothing(tmp_path):
    fill(CacheFolder(tmp_path, most_bytes=0), "one", "a", "b")
    assert packs(tmp_path) == []


def test_what_a_killed_run_left_unfinished_is_removed(tmp_path):
    (tmp_path / "one").mkdir()
    left = tmp_path / "one" / "abc.123.unfinished"
    left.write_bytes(b"half")
    fill(CacheFolder(tmp_path), "one", "a")
    assert not left.exists()


@pytest.mark.skipif(not os.path.isdir("/proc/self"), reason="needs /proc, where no folder can be made")  # noqa: PTH112
def test_a_folder_that_cannot_be_made_is_told(tmp_path):
    from pathlib import Path

    told = []
    with CacheFolder(Path("/proc/longctx"), tell=told.append).store("one") as store:
        assert store is None
    assert len(told) == 1
    assert told[0].startswith("the cache /proc/longctx is not used: ")


def test_a_file_in_the_place_of_the_folder_is_told(tmp_path):
    told, path = [], tmp_path / "file"
    path.write_text("")
    with CacheFolder(path, tell=told.append).store("one") as store:
        assert store is None
    assert told == [f"the cache {path} is not used: Not a directory"]


def test_what_was_measured_before_an_interrupt_is_kept(tmp_path):
    rows = [chat("hi", "yo", name="a")]

    def interrupted():
        yield from rows * 256
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt), CacheFolder(tmp_path).store("one") as store:
        measure(interrupted(), "messages", characters(), SupervisionSection(), known=store)
    with CacheFolder(tmp_path).store("one") as store:
        assert store.missing(rows) == 0


def test_who_comes_second_waits_and_finds_the_rows(tmp_path, monkeypatch):
    monkeypatch.setattr(folder, "PATIENCE", 0.0)
    told, waiting, missing = [], threading.Event(), []
    rows = [chat("hi", "yo", name="a")]

    def hear(message):
        told.append(message)
        waiting.set()

    def second():
        with CacheFolder(tmp_path, tell=hear).store("one") as store:
            missing.append(store.missing(rows))

    with CacheFolder(tmp_path).store("one") as store:
        thread = threading.Thread(target=second)
        thread.start()
        assert waiting.wait(60)
        measure(rows, "messages", characters(), SupervisionSection(), known=store)
    thread.join(60)
    assert missing == [0]
    assert told[0].startswith("waiting for another run")


def test_a_damaged_pack_is_removed(tmp_path):
    rows = fill(CacheFolder(tmp_path), "one", "a")
    (path,) = packs(tmp_path)
    path.write_bytes(b"\0" * 100)
    assert Store(path.parent).missing(rows) == 1
    assert packs(tmp_path) == []
