from __future__ import annotations

import re

import pytest
import yaml

from pytest_longctx.checks import checks_of
from pytest_longctx.checks.catalog import CATALOG
from pytest_longctx.checks.explain import page
from pytest_longctx.cli import main
from pytest_longctx.contract import GpuLimits, LengthsLimits, PackingLimits, WindowLimits, load_contract
from pytest_longctx.errors import LongctxError


def every_limit(model, **changed):
    """Each limit once, at a value that every one of them takes."""
    limits = {
        name: 1 if "rows_over" in name or name.endswith("_tokens") else 0.5 for name in model.model_fields
    }
    return {**limits, **changed}


@pytest.fixture
def contract(tmp_path):
    """A contract with all sections, limits and kinds of attention, and a trainer with a limit of its own."""
    terms = {
        "contract": 1,
        "tokenizer": {"path": "tokenizer"},
        "dataset": {"path": "rows.jsonl", "slices": "source"},
        "lengths": {"short_threshold": 8, "long_threshold": 16, "limits": every_limit(LengthsLimits)},
        "window": {"target_context_len": 32, "limits": every_limit(WindowLimits)},
        "packing": {"trainer": {"name": "trl_sft", "config": {}}, "limits": every_limit(PackingLimits)},
        "isolation": {"attention": ["eager", "flash_attention_2"]},
        "curriculum": {
            "baseline": {"metrics": "m.json", "target_context_len": 8},
            "stages": [{"name": "next", "target_context_len": 16, "metrics": "m.json"}],
            "batch": {"devices": 1},
            "limits": {
                "min_long_context_gain": 0.1,
                "max_short_context_regression": 0.1,
                "max_failed_runs": 0,
                "max_peak_memory_gb": 1.0,
                "max_cost_per_supervised_token": 1.0,
            },
        },
        "gpu": {"baseline": "record.json", "limits": every_limit(GpuLimits)},
    }
    path = tmp_path / "contract.yaml"
    path.write_text(yaml.safe_dump(terms, sort_keys=False), encoding="utf-8")
    return load_contract(path)


def test_the_catalog_has_every_check_that_a_contract_can_make_and_no_other(contract):
    assert {f"{check.section}::{check.name}" for check in checks_of(contract)} == set(CATALOG)


@pytest.mark.parametrize("name", CATALOG)
def test_an_entry_is_three_sentences(name):
    for text in CATALOG[name]:
        assert re.match(r"[A-Z0-9`]", text)
        assert text.endswith(".")


@pytest.mark.parametrize(
    "name",
    [
        "window::policy",
        "policy",
        "contracts/a.yaml::window::policy",
        "window::policy::a-slice",
        "contracts/a.yaml::window::policy::a-slice",
    ],
)
def test_a_check_is_found_by_any_of_its_names(name):
    assert page(name).startswith("window::policy\n\nThat every sample is fit,")


def test_a_page_has_eighty_columns_and_three_parts():
    text = page("packing::min_utilization")
    assert text == (
        "packing::min_utilization\n\n"
        "Tokens / (rows × max_tokens_per_bin): at least the limit.\n\n"
        "Why it matters. Empty room in packed rows is paid for like tokens.\n\n"
        "How to mend it. Pack larger map batches, longest samples first, or use the\npacker `ffd`."
    )


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("roles", "roles: which one? dataset::roles, supervision::roles"),
        ("window::polcy", "window::polcy: there is no such check; did you mean window::policy?"),
        ("", ": there is no such check"),
        ("custom::mine", "custom::mine is a check of your own: a hook pytest_longctx_checks registers it"),
    ],
)
def test_a_name_that_says_nothing_is_refused(name, message):
    with pytest.raises(LongctxError) as caught:
        page(name)
    assert str(caught.value).startswith(message)


def test_the_command_prints_the_page_or_what_is_wrong(capsys):
    assert main(["explain", "window::policy"]) == 0
    assert capsys.readouterr().out == page("window::policy") + "\n"
    assert main(["explain", "nope"]) == 1
    assert capsys.readouterr().out == "nope: there is no such check. All of them: docs/checks.md\n"


@pytest.mark.parametrize("section", ["dataset", "supervision"])
@pytest.mark.parametrize("before", ["", "a.yaml::", "tests::a.yaml::"])
@pytest.mark.parametrize("behind", ["", "::web"])
def test_a_section_tells_checks_of_one_name_apart(section, before, behind):
    assert page(f"{before}{section}::roles{behind}").startswith(f"{section}::roles\n\n")


def test_the_last_word_is_enough_where_it_is_the_only_one():
    assert page("elsewhere::policy") == page("policy")


@pytest.mark.parametrize("name", ["custom", "custom::mine", "a.yaml::custom::mine"])
def test_own_checks_have_no_page(name):
    with pytest.raises(LongctxError, match=f"^{name} is a check of your own"):
        page(name)


def test_a_path_does_not_hide_what_was_meant():
    with pytest.raises(LongctxError, match=r"polcy: there is no such check; did you mean window::policy\?"):
        page("contracts/some_long_folder/a.yaml::window::polcy")


def test_lines_are_as_long_as_a_terminal_is_wide():
    assert max(len(line) for name in CATALOG for line in page(name).splitlines()) == 80


def test_names_with_hyphens_stay_whole(monkeypatch):
    monkeypatch.setitem(CATALOG, "window::policy", ("word " * 14 + "pytest-longctx", "m", "e"))
    assert page("window::policy").splitlines()[2:4] == [("word " * 14).strip(), "pytest-longctx"]
