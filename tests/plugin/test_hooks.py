"""What conftest.py can add, run as a user would."""

from __future__ import annotations

import pytest

CONTRACT = "--longctx-contract=contracts/sft.yaml"


def test_a_registered_dataset(pytester, project):
    project(dataset={"path": "registered:chats"}, packing=None)
    pytester.makeconftest(
        "def chats():\n"
        "    for number in range(3):\n"
        "        yield {'messages': [dict(role='user', content='a'), dict(role='assistant', content='b')]}\n"
        "def pytest_longctx_datasets():\n    return {'chats': chats}\n"
    )
    result = pytester.runpytest(CONTRACT)
    assert result.ret == 0
    result.stdout.fnmatch_lines(["*max_overflow_ratio*0 %*0 %*passed"])


def test_a_dataset_that_nobody_registered(pytester, project):
    project(dataset={"path": "registered:chat"}, packing=None)
    pytester.makeconftest("def pytest_longctx_datasets():\n    return {'chats': list}\n")
    result = pytester.runpytest(CONTRACT)
    assert result.ret == 1
    assert "no dataset 'chat' is registered; did you mean chats?" in " ".join(result.stdout.str().split())


def test_a_dataset_that_raises(pytester, project):
    project(dataset={"path": "registered:chats"}, packing=None)
    pytester.makeconftest(
        "def chats():\n    raise OSError('no connection')\n"
        "def pytest_longctx_datasets():\n    return {'chats': chats}\n"
    )
    result = pytester.runpytest(CONTRACT)
    assert result.ret == 1
    assert "the dataset 'chats' raised OSError: no connection" in " ".join(result.stdout.str().split())
    result.stdout.no_fnmatch_line("*Traceback*")


def test_a_registered_check(pytester, project):
    project(packing=None)
    pytester.makeconftest(
        "from pytest_longctx import Verdict\n"
        "def few_turns(evidence):\n"
        "    turns = int(evidence.measured.ledger.turn_offsets[-1])\n"
        "    outcome = 'failed' if turns > 5 else 'passed'\n"
        "    return Verdict(outcome, f'few_turns {turns} > 5', turns, 5, 'turns', advice='shorten them')\n"
        "def pytest_longctx_checks():\n    return {'few_turns': few_turns}\n"
    )
    result = pytester.runpytest(CONTRACT, "-k", "few_turns")
    assert result.ret == 1
    result.stdout.fnmatch_lines(["few_turns 10 > 5", "*contracts/sft.yaml:1*", "  shorten them"])


@pytest.mark.parametrize(
    ("named", "status", "line"),
    [
        ("custom::few_turns", 0, "*1 xfailed*"),
        (
            "custom::few_turn",
            4,
            "*no check 'custom::few_turn'; did you mean 'custom::few_turns'?*",
        ),
    ],
)
def test_a_registered_check_is_waived_by_its_name(pytester, project, named, status, line):
    project(packing=None, waivers=[{"check": named, "until": "2999-01-01", "reason": "old data"}])
    pytester.makeconftest(
        "from pytest_longctx import Verdict\n"
        "def few_turns(evidence):\n    return Verdict('failed', 'few_turns 10 > 5')\n"
        "def pytest_longctx_checks():\n    return {'few_turns': few_turns}\n"
    )
    result = pytester.runpytest_subprocess(CONTRACT, "-k", "few_turns")
    assert result.ret == status
    (result.stderr if status == 4 else result.stdout).fnmatch_lines([line])


def test_a_registered_name_that_is_none_is_told_with_waivers(pytester, project):
    waiver = {"check": "window::policy", "until": "2999-01-01", "reason": "old data"}
    project(packing=None, waivers=[waiver])
    pytester.makeconftest("def pytest_longctx_checks():\n    return {'Few Turns': print}\n")
    result = pytester.runpytest(CONTRACT)
    assert result.ret == 4
    result.stderr.fnmatch_lines(["ERROR: the check 'Few Turns' has a name that is not of *"])


@pytest.mark.parametrize(
    ("kind", "given", "found"), [("checks", "[print]", "list"), ("packers", "'mine'", "str")]
)
def test_a_hook_that_gives_no_mapping(pytester, project, kind, given, found):
    """The hook and the plugin are named; the other plugin of the same hook is sound."""
    project(packing=None)
    pytester.makepyfile(sound=f"def pytest_longctx_{kind}():\n    return {{}}\n")
    pytester.makeconftest(f"def pytest_longctx_{kind}():\n    return {given}\n")
    pytester.syspathinsert()
    result = pytester.runpytest(CONTRACT, "-p", "sound")
    assert result.ret != 0
    said = " ".join((result.stdout.str() + result.stderr.str()).split())
    words = f"conftest.py gave a {found}, expected a mapping of names to callables"
    assert f"pytest_longctx_{kind} of " in said
    assert words in said
    assert "INTERNALERROR" not in said
    assert "Traceback" not in said


def test_a_check_that_gives_no_verdict(pytester, project):
    project(packing=None)
    pytester.makeconftest("def pytest_longctx_checks():\n    return {'silent': lambda evidence: None}\n")
    result = pytester.runpytest(CONTRACT, "-k", "silent")
    assert result.ret == 1
    result.stdout.fnmatch_lines(["silent: the check 'silent' gave NoneType, expected a Verdict"])


def test_a_registered_collator(pytester, project):
    """A collator that forgets the borders is caught, whoever wrote it."""
    project(packing={"packer": "ffd", "collator": "forgetful"})
    pytester.makeconftest(
        "import numpy as np\n"
        "def forgetful(rows):\n"
        "    return {name: np.stack([row[name] for row in rows]) for name in ('input_ids', 'labels')}\n"
        "def pytest_longctx_collators():\n    return {'forgetful': forgetful}\n"
    )
    result = pytester.runpytest(CONTRACT, "-rf")
    assert result.ret == 1
    result.stdout.fnmatch_lines(["FAILED contracts/sft.yaml::packing::position_ids*"])
    result.stdout.no_fnmatch_line("FAILED contracts/sft.yaml::packing::sample_conservation*")


TRAINER = """
from types import SimpleNamespace
from pytest_longctx.packing.audit import Delivery
from pytest_longctx.packing.packers import joined
from pytest_longctx.packing.reference import first_fit_decreasing

class Loop:
    maker = "trainer mine"

    def __init__(self, request):
        self.request = request

    def deliver(self):
        planned, samples = self.request.planned, self.request.samples
        offsets, order = first_fit_decreasing(planned, {limit}).rows()
        for start, end in zip(offsets[:-1], offsets[1:]):
            tokens = [samples[at] for at in order[start:end]]
            chosen = [{{"input_ids": each.ids, "labels": each.labels}} for each in tokens]
            yield Delivery(None, self.request.collate([joined(chosen, range(len(chosen)))]))

    def window(self):
        return 64

    make_batch = None

def pytest_longctx_trainers():
    return {{"mine": Loop}}
"""


@pytest.mark.parametrize("collator", ["padded", "block_mask"])
@pytest.mark.parametrize(("limit", "failed"), [(64, []), (128, ["packing::capacity"])])
def test_a_registered_trainer_that_packs_by_another_limit(pytester, project, collator, limit, failed):
    project(packing={"trainer": "mine", "collator": collator})
    pytester.makeconftest(TRAINER.format(limit=limit))
    result = pytester.runpytest(CONTRACT, "-k", "packing", "-rf")
    lines = [line.split(" - ")[0] for line in result.outlines if line.startswith("FAILED ")]
    assert lines == [f"FAILED contracts/sft.yaml::{check}" for check in failed]
