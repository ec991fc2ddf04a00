"""What users get wrong, and what they are told: every message is read here."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import json
import sys

import pytest


def run(pytester, *args):
    return pytester.runpytest("--longctx-contract=contracts/sft.yaml", *args)


def refused(pytester, *lines, args=()):
    """The contract itself is refused: exit status 4, each problem once, no traceback."""
    result = run(pytester, *args)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    for line in lines:
        assert sum(line in found for found in result.errlines) == 1, result.stderr.str()
    assert "Traceback" not in result.stderr.str() + result.stdout.str()


def not_judged(pytester, *words):
    """The evidence cannot be made: the cause is told once, without a traceback, and nothing passes for it."""
    result = run(pytester)
    assert result.ret == 1
    text = " ".join(result.stdout.str().split())
    for word in words:
        assert word in text, result.stdout.str()
    assert "Traceback" not in text
    assert ": not judged, see " in text


@pytest.mark.parametrize("xdist", [(), ("-n0",), ("-n2", "--dist", "loadfile")], ids=["plain", "n0", "n2"])
def test_all_problems_of_a_contract_at_once(pytester, project, xdist):
    project(window={"target_context_len": 0, "target_context": 5}, lenghts={})
    refused(
        pytester,
        "window.target_context_len: found 0, expected at least 1",
        "window.target_context: unknown key, did you mean 'target_context_len'?",
        "lenghts: unknown key, did you mean 'lengths'?",
        args=xdist,
    )


def test_missing_contract(pytester):
    refused(pytester, "contracts/sft.yaml:1:1: there is no such file")


def test_empty_contract(pytester, project):
    project().write_text("")
    refused(pytester, "contracts/sft.yaml:1:1: the file is empty")


def test_contract_that_is_not_utf8(pytester, project):
    project().write_bytes(b"contract: 1\nname: \xff\n")
    refused(pytester, "contracts/sft.yaml:2:7: the file is not UTF-8: byte 0xff")


def test_contract_that_is_a_folder(pytester):
    pytester.mkdir("contracts")
    (pytester.path / "contracts" / "sft.yaml").mkdir()
    refused(pytester, "contracts/sft.yaml:1:1: found a folder, expected a contract file")


def test_the_same_contract_twice(pytester, project):
    project()
    result = run(pytester, "--longctx-contract=./contracts/sft.yaml")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*contracts/sft.yaml:1:1: the contract is given twice, expected once"])


def test_contradictory_limits(pytester, project):
    limits = {"min_long_share": 0.5, "max_long_share": 0.1}
    project(lengths={"short_threshold": 1, "long_threshold": 2, "limits": limits})
    refused(pytester, "0.5 is above max_long_share 0.1: no value meets both")


def test_hub_id_without_revision(pytester, project):
    project(dataset={"path": "org/chats"})
    refused(pytester, "a Hub id needs revision: its commit, 40 hexadecimal digits")


def test_absent_extra(pytester, project, monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name, package=None: None)
    sys.modules.pop("pytest_longctx.requirements", None)
    project(packing={"packer": "trl_bfd"})
    refused(
        pytester,
        "packer trl_bfd needs trl (not installed), torch (not installed), datasets (not installed): "
        "pip install 'pytest-longctx[trl]'",
    )


@pytest.mark.parametrize(
    ("trl", "datasets", "lacking"),
    [
        ("1.14.2", "5.2.0", "trl ≥ 1.15 (found 1.14.2)"),
        ("1.9.0", "4.7.1", "trl ≥ 1.15 (found 1.9.0), datasets ≥ 4.8 (found 4.7.1)"),
    ],
)
def test_an_extra_that_is_too_old(pytester, project, monkeypatch, trl, datasets, lacking):
    found = {"trl": trl, "torch": "2.6.0+cpu", "datasets": datasets}
    version, find_spec = importlib.metadata.version, importlib.util.find_spec
    monkeypatch.setattr("importlib.metadata.version", lambda name: found.get(name) or version(name))
    monkeypatch.setattr("importlib.util.find_spec", lambda name, *a: found.get(name) or find_spec(name, *a))
    sys.modules.pop("pytest_longctx.requirements", None)
    project(packing={"packer": "trl_bfd"})
    refused(pytester, f"packer trl_bfd needs {lacking}: pip install 'pytest-longctx[trl]'")


def test_isolation_without_torch(pytester, project, monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name, package=None: None)
    sys.modules.pop("pytest_longctx.requirements", None)
    project(isolation={"model": "qwen2", "attention": ["sdpa"], "forward": {"use_cache": False}})
    refused(
        pytester,
        "isolation: a model on CPU needs torch (not installed): pip install 'pytest-longctx[gpu]'",
    )


def test_unknown_packer(pytester, project):
    project(packing={"packer": "fdd"})
    not_judged(pytester, "packing.packer: there is no packer 'fdd'; did you mean ffd?")


def test_missing_data_file(pytester, project):
    project(dataset={"path": "nowhere.jsonl"})
    not_judged(pytester, "dataset.path 'nowhere.jsonl': no such file")


def test_empty_data_file(pytester, project):
    project()
    (pytester.path / "data" / "chats.jsonl").write_text("")
    result = run(pytester)
    assert result.ret == 1
    result.stdout.fnmatch_lines(["rows: *", "*empty*"])


def test_broken_line_in_the_middle(pytester, project, rows):
    """The row is named, and the run goes on to count the others."""
    project(packing=None)
    lines = [json.dumps({**rows[0], "uid": f"row-{i}"}) for i in range(10_000)]
    lines[4_999], lines[8_000] = '{"uid": ', "nonsense"
    (pytester.path / "data" / "chats.jsonl").write_text("\n".join(lines))
    result = run(pytester)
    text = " ".join(result.stdout.str().split())
    assert "rows: 2 of 10,000 rows cannot be used" in text
    assert "chats.jsonl:5000 broken_json" in text
    assert "chats.jsonl:8001 broken_json" in text


@pytest.mark.parametrize(
    ("row", "kind"),
    [
        ({"text_of_row": "x"}, "missing_keys"),
        (
            {"messages": [{"role": "user", "content": None}, {"role": "assistant", "content": "x"}]},
            "null_content",
        ),
        ({"messages": []}, "empty_messages"),
        ({"messages": [{"content": "x"}]}, "unknown_role"),
    ],
)
def test_rows_that_cannot_be_used(pytester, project, rows, row, kind):
    rows[3] = {"uid": "chat-3", **row}
    project(packing=None)
    result = run(pytester)
    assert result.ret == 1
    result.stdout.fnmatch_lines(["rows: 1 of 10 rows cannot be used"])
    assert f"chat-3 {kind}" in " ".join(result.stdout.str().split())


def test_unknown_role_is_a_finding(pytester, project, rows, examples):
    template = pytester.path / "any.jinja"
    template.write_text(
        "{% for message in messages %}<|im_start|>{{ message.role }}\n"
        "{% generation %}{{ message.content }}<|im_end|>{% endgeneration %}\n{% endfor %}"
    )
    rows[3]["messages"][1]["role"] = "bot"
    project(tokenizer={"path": str(examples / "tokenizer"), "chat_template": str(template)}, packing=None)
    text = " ".join(run(pytester).stdout.str().split())
    assert "roles: 1 × roles out of order" in text
    assert "unknown role 'bot'" in text


def test_a_role_that_the_template_refuses_is_a_row_that_cannot_be_used(pytester, project, rows):
    rows[3]["messages"][1]["role"] = "bot"
    project(packing=None)
    text = " ".join(run(pytester).stdout.str().split())
    assert "rows: 1 of 10 rows cannot be used" in text
    assert "TemplateError: unknown role: bot" in text


def test_tokenizer_folder_without_files(pytester, project):
    pytester.mkdir("empty")
    project(tokenizer={"path": str(pytester.path / "empty")})
    not_judged(pytester, "tokenizer.path: the folder", "holds no tokenizer.json")


def test_template_with_a_syntax_error(pytester, project, examples):
    template = pytester.path / "broken.jinja"
    template.write_text("{% for message in messages %}\n{{ message.content }\n{% endfor %}")
    project(tokenizer={"path": str(examples / "tokenizer"), "chat_template": str(template)})
    not_judged(pytester, "tokenizer.chat_template:", "broken.jinja, line 2:")


def test_template_that_raises_for_one_row(pytester, project, examples, rows):
    template = pytester.path / "strict.jinja"
    plain = (examples / "chatml.jinja").read_text()
    template.write_text(
        "{% if messages[0].content == 'no' %}{{ raise_exception('never no') }}{% endif %}" + plain
    )
    rows[3]["messages"][0]["content"] = "no"
    project(tokenizer={"path": str(examples / "tokenizer"), "chat_template": str(template)}, packing=None)
    text = " ".join(run(pytester).stdout.str().split())
    assert "rows: 1 of 10 rows cannot be used" in text
    assert "chat-3 template_error the chat template refuses the row: TemplateError: never no" in text


def test_template_without_generation_blocks(pytester, project, examples):
    plain = str(examples / "chatml_plain.jinja")
    project(tokenizer={"path": str(examples / "tokenizer"), "chat_template": plain})
    not_judged(pytester, "chatml_plain.jinja has no {% generation %} block", "trl:…_training")


def test_a_packer_that_raises_midway(pytester, project):
    project(packing={"packer": "midway"})
    pytester.makeconftest(
        "def packer(samples, max_tokens_per_bin):\n"
        "    yield dict(samples[0])\n"
        "    raise ValueError('lost my way')\n"
        "def pytest_longctx_packers():\n    return {'midway': packer}\n"
    )
    not_judged(pytester, "packer midway raised ValueError: lost my way")


def test_a_hook_that_takes_a_shipped_name(pytester, project):
    project()
    pytester.makeconftest("def pytest_longctx_packers():\n    return {'ffd': print}\n")
    result = run(pytester)
    assert result.ret != 0
    assert "the packer 'ffd' ships with pytest-longctx; register yours under another name" in (
        result.stdout.str() + result.stderr.str()
    )


def collected(pytester, *args):
    """What a run says that cannot judge a contract which is named as a path; no traceback."""
    result = pytester.runpytest("contracts/sft.yaml", "-q", *args)
    assert result.ret != 0
    result.assert_outcomes(errors=1)
    result.stdout.no_fnmatch_line("*.py:*")
    result.stdout.no_fnmatch_line("*UsageError*")
    lines = result.outlines
    start = next(at for at, line in enumerate(lines) if "ERROR collecting contracts/sft.yaml" in line)
    return lines[start + 1 : next(at for at, line in enumerate(lines) if "short test summary" in line)]


@pytest.mark.parametrize("xdist", [(), ("-n2", "--dist=loadfile")])
def test_a_broken_contract_that_is_named_as_a_path(pytester, project, xdist):
    path = project(windows={"target_context_len": 64}, packing={"packer": "ffd", "batch_size": 0})
    good = path.with_name("good.yaml")
    good.write_text(project("other").read_text(encoding="utf-8"), encoding="utf-8")
    told = collected(pytester, *xdist)
    assert [line.partition(": ")[2] for line in told] == [
        "packing.batch_size: found 0, expected at least 1",
        "windows: unknown key, did you mean 'window'?",
    ]
    assert all(line.startswith("contracts/sft.yaml:") for line in told)
    # What else is named is collected.
    shown = pytester.runpytest("contracts/sft.yaml", "contracts/good.yaml", "--collect-only", "-q")
    shown.stdout.fnmatch_lines(["contracts/good.yaml::packing::capacity"])


def test_a_wrong_option_beside_a_contract_that_is_named_as_a_path(pytester, project):
    project()
    assert collected(pytester, "--longctx-jobs=some") == [
        "--longctx-jobs: found 'some', expected auto or a number from 1 to 256"
    ]


def test_a_wrong_registration_beside_a_contract_that_is_named_as_a_path(pytester, project):
    project()
    pytester.makeconftest("def pytest_longctx_packers():\n    return {'ffd': list}\n")
    (line,) = collected(pytester)
    assert "ffd" in line
