from __future__ import annotations

import os
from pathlib import Path

import pytest

from pytest_longctx.dataset.files import display_names, find_files
from pytest_longctx.errors import DatasetError


def names(patterns, folder):
    return [str(path.relative_to(folder)) for path in find_files(patterns, folder)]


def test_glob_is_sorted_and_takes_only_data(tmp_path, write):
    for name in ("b.jsonl", "a.jsonl.gz", "c.txt", "d.parquet", "README.md"):
        write(name, "{}")
    assert names(["*"], tmp_path) == ["a.jsonl.gz", "b.jsonl", "d.parquet"]


def test_patterns_keep_their_order_and_files_come_once(tmp_path, write):
    for name in ("a.jsonl", "b.jsonl", "c.jsonl"):
        write(name, "{}")
    assert names(["c.jsonl", "*.jsonl"], tmp_path) == ["c.jsonl", "a.jsonl", "b.jsonl"]


def test_folder_is_searched_to_the_bottom_without_hidden_names(tmp_path, write):
    for name in ("data/z.jsonl", "data/a/x.json", "data/.git/y.json", "data/.hidden.jsonl"):
        write(name, "{}")
    assert names(["data"], tmp_path) == ["data/a/x.json", "data/z.jsonl"]


def test_folder_of_save_to_disk_gives_its_rows_only(tmp_path, write):
    for name in ("data-00000-of-00001.arrow", "state.json", "dataset_info.json", "cache-1f.arrow"):
        write(f"set/{name}", "{}")
    assert names(["set"], tmp_path) == ["set/data-00000-of-00001.arrow"]


def test_recursive_glob(tmp_path, write):
    for name in ("x/a.jsonl", "x/y/b.jsonl"):
        write(name, "{}")
    assert names(["**/*.jsonl"], tmp_path) == ["x/a.jsonl", "x/y/b.jsonl"]


def test_name_with_glob_characters_is_taken_as_it_is(tmp_path, write):
    write("data[1].jsonl", "{}")
    assert names(["data[1].jsonl"], tmp_path) == ["data[1].jsonl"]


def test_absolute_path_and_parent_folder(tmp_path, write):
    path = write("data/a.jsonl", "{}")
    (tmp_path / "contracts").mkdir()
    assert find_files([str(path)], Path("/")) == (path,)
    assert find_files(["../data/*.jsonl"], tmp_path / "contracts") == (path,)


def test_link_to_a_file_is_read_once_beside_it(tmp_path, write):
    write("b.jsonl", "{}")
    (tmp_path / "a.jsonl").symlink_to(tmp_path / "b.jsonl")
    assert names(["*.jsonl"], tmp_path) == ["a.jsonl"]


def test_loop_of_folder_links_ends(tmp_path, write):
    write("x/a.jsonl", "{}")
    (tmp_path / "x" / "loop").symlink_to(tmp_path / "x")
    assert names(["**/*.jsonl"], tmp_path) == ["x/a.jsonl"]
    assert names(["x"], tmp_path) == ["x/a.jsonl"]


@pytest.mark.parametrize("pattern", ["p.jsonl", "*.jsonl", "."])
def test_pipe_is_refused(tmp_path, pattern):
    os.mkfifo(tmp_path / "p.jsonl")
    with pytest.raises(DatasetError, match=r"p\.jsonl: is a pipe; expected a regular file"):
        find_files([pattern], tmp_path)


def test_device_is_refused(tmp_path):
    (tmp_path / "zero.jsonl").symlink_to("/dev/zero")
    with pytest.raises(DatasetError, match=r"zero\.jsonl: is a device"):
        find_files(["zero.jsonl"], tmp_path)


@pytest.mark.parametrize("pattern", ["a.jsonl", "*.jsonl"])
def test_links_without_a_file_are_refused(tmp_path, pattern):
    (tmp_path / "a.jsonl").symlink_to(tmp_path / "gone.jsonl")
    with pytest.raises(DatasetError, match=r"a\.jsonl: No such file or directory; expected a regular file"):
        find_files([pattern], tmp_path)


def test_link_to_itself_is_refused(tmp_path):
    (tmp_path / "a.jsonl").symlink_to(tmp_path / "a.jsonl")
    with pytest.raises(DatasetError, match=r"a\.jsonl: Too many levels of symbolic links"):
        find_files(["a.jsonl"], tmp_path)


def test_no_match_names_pattern_folder_and_near_names(tmp_path, write):
    write("data/chat_train.jsonl", "{}")
    write("data/zzz.txt", "")
    with pytest.raises(DatasetError) as caught:
        find_files(["data/chat_trian.jsonl"], tmp_path)
    assert str(caught.value) == (
        f"dataset.path 'data/chat_trian.jsonl': no such file, seen from {tmp_path}; "
        f"{tmp_path}/data holds chat_train.jsonl, zzz.txt"
    )


def test_no_match_in_a_missing_folder_names_the_nearest_one_above(tmp_path, write):
    write("data/a.jsonl", "{}")
    with pytest.raises(DatasetError, match=rf"; {tmp_path} holds data$"):
        find_files(["dat/a.jsonl"], tmp_path)


def test_long_lists_of_near_names_are_cut(tmp_path, write):
    for number in range(7):
        write(f"a{number}.jsonl", "{}")
    with pytest.raises(
        DatasetError, match=r"holds a0\.jsonl, a1\.jsonl, a2\.jsonl, a3\.jsonl, a4\.jsonl, …$"
    ):
        find_files(["a.jsonl"], tmp_path)


def test_empty_folder(tmp_path):
    with pytest.raises(DatasetError, match=r"the folder holds no file that ends in \.jsonl, \.ndjson, "):
        find_files(["."], tmp_path)


def test_kind_of_file_that_is_not_read(tmp_path, write):
    write("a.csv", "x")
    with pytest.raises(DatasetError, match=r"a\.csv: cannot read this kind of file; expected one of \.jsonl"):
        find_files(["a.csv"], tmp_path)


def test_display_names_are_as_short_as_they_can_be():
    paths = [Path(path) for path in ("/d/x/a.jsonl", "/d/y/a.jsonl", "/d/y/b.jsonl")]
    assert display_names(paths) == ("x/a.jsonl", "y/a.jsonl", "b.jsonl")
    deep = [Path(path) for path in ("/d/1/x/a.jsonl", "/d/2/x/a.jsonl", "/d/3/y/a.jsonl")]
    assert display_names(deep) == ("1/x/a.jsonl", "2/x/a.jsonl", "y/a.jsonl")
