from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from pytest_longctx.cli import main

SOUND = "contract: 1\ntokenizer: {path: t}\ndataset: {path: d.jsonl}\nwindow: {target_context_len: 8}\n"


@pytest.fixture(autouse=True)
def _folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "sound.yaml").write_text(SOUND)
    (tmp_path / "broken.yaml").write_text(SOUND + "windw: 1\nname: 2\n")


def test_check_says_what_a_sound_contract_has(capsys):
    assert main(["check", "sound.yaml"]) == 0
    assert capsys.readouterr().out == "sound.yaml: ok (tokenizer, dataset, window)\n"


def test_check_goes_on_after_a_broken_contract(capsys):
    assert main(["check", "broken.yaml", "absent.yaml", "sound.yaml"]) == 1
    assert capsys.readouterr().out == (
        "broken.yaml:5:1: windw: unknown key, did you mean 'window'?\n"
        "broken.yaml:6:7: name: found 2, expected text\n"
        "absent.yaml:1:1: there is no such file\n"
        "sound.yaml: ok (tokenizer, dataset, window)\n"
    )


def test_schema_prints_json(capsys):
    assert main(["schema"]) == 0
    assert json.loads(capsys.readouterr().out)["required"] == ["contract", "dataset"]


@pytest.mark.parametrize("arguments", [[], ["check"], ["chek"]])
def test_wrong_use_is_explained(capsys, arguments):
    with pytest.raises(SystemExit) as caught:
        main(arguments)
    assert caught.value.code == 2
    assert "usage: longctx" in capsys.readouterr().err


def test_check_imports_nothing_heavy():
    code = (
        "import sys; from pytest_longctx.cli import main; main(['check', 'sound.yaml'])\n"
        "heavy = {'numpy', 'pyarrow', 'transformers', 'torch', 'pytest', 'orjson'}\n"
        "print(sorted(heavy & sys.modules.keys()))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "sound.yaml: ok (tokenizer, dataset, window)\n[]\n"


def test_output_survives_a_narrow_encoding():
    code = "from pytest_longctx.cli import main; raise SystemExit(main(['check', '\\xe9.yaml']))"
    environment = {"PYTHONIOENCODING": "ascii"}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment)
    assert (done.returncode, done.stderr) == (1, "")
    assert done.stdout == "\\xe9.yaml:1:1: there is no such file\n"


def test_without_a_place_to_print_to_it_says_nothing(monkeypatch):
    monkeypatch.setattr(sys, "stdout", None)
    assert main(["explain", "packing::capacity"]) == 0


@pytest.mark.skipif(sys.platform == "win32", reason="pipes of POSIX")
@pytest.mark.parametrize("arguments", [["explain", "packing::capacity"], ["schema"]])
def test_a_pipe_that_is_closed_ends_it_quietly(arguments):
    """A short page meets the closed pipe when it is flushed, a long one when it is printed."""
    reading, writing = os.pipe()
    os.close(reading)
    code = f"from pytest_longctx.cli import main; raise SystemExit(main({arguments}))"
    with os.fdopen(writing, "wb") as pipe:
        done = subprocess.run([sys.executable, "-c", code], stdout=pipe, stderr=subprocess.PIPE)
    assert (done.returncode, done.stderr) == (141, b"")
