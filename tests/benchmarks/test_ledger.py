"""The ledger beside what it cannot do without, beside TRL's preparation, and beside a linter that renders.

LONGCTX_BENCHMARK_ROWS sets the number of chats; docs/performance.md reports 20,000. The linter, convmerge,
runs in an environment that has it and this package, so that both load the same libraries:
LONGCTX_CORE_ENVIRONMENT is its folder.
"""

from __future__ import annotations

import json
import os
import subprocess
import time
from pathlib import Path

import pytest

from pytest_longctx.contract import SupervisionSection
from pytest_longctx.tokens.build import measure
from tests.benchmarks.chats import LONG, ROWS, SHORT, TOKENIZERS, chats, tokenizer, tokenizer_path, told

pytest.importorskip("pytest_benchmark", reason="pytest-benchmark is not installed")

LONG_ROWS = max(3, ROWS * SHORT // LONG)
FLOOR_BLOCK = 256


@pytest.fixture
def one_thread(monkeypatch):
    monkeypatch.setenv("TOKENIZERS_PARALLELISM", "false")


@pytest.fixture(scope="module", params=TOKENIZERS)
def loaded(request):
    return request.param, tokenizer(request.param)


@pytest.fixture(scope="module")
def short():
    return chats(ROWS, SHORT, 3)


def ledger(rows, loaded):
    """The pass over the rows, with all that it inspects."""
    measured = measure(rows, "messages", loaded, SupervisionSection())
    assert len(measured.samples) == len(rows)
    assert not measured.findings.counts
    return int(measured.ledger.total.sum())


def floor(rows, loaded, encode):
    """Rendering by a compiled template and tokenization, block by block, with the results thrown away."""
    from transformers.utils.chat_template_utils import _compile_jinja_template

    template = _compile_jinja_template(loaded.template)
    call = getattr(loaded.backend.backend_tokenizer, encode)
    for start in range(0, len(rows), FLOOR_BLOCK):
        texts = [template.render(messages=row.messages) for row in rows[start : start + FLOOR_BLOCK]]
        call(texts, add_special_tokens=False)


def test_short_chats_beside_their_floor(benchmark, ratio, one_thread, loaded, short):
    name, own = loaded
    benchmark.group = f"ledger of short chats, {name}"
    ratio(
        lambda: ledger(short, own),
        lambda: floor(short, own, "encode_batch"),
        what=f"ledger with all inspections / rendering + `encode_batch`, short chats, {name}",
        reach="≤ 1.2",
        scale=told(ROWS, ledger(short, own)),
        rounds=3,
        clock=time.process_time,
    )


def test_long_chats_beside_their_floor(benchmark, ratio, one_thread, loaded):
    name, own = loaded
    rows = chats(LONG_ROWS, LONG, 6)
    benchmark.group = f"ledger of long chats, {name}"
    ratio(
        lambda: ledger(rows, own),
        lambda: floor(rows, own, "encode_batch_fast"),
        what=f"ledger with all inspections / rendering + `encode_batch_fast`, long chats, {name}",
        reach="≤ 1.5",
        scale=told(LONG_ROWS, ledger(rows, own)),
        rounds=3,
        clock=time.process_time,
    )


@pytest.fixture
def preparation(loaded, short, tmp_path, monkeypatch):
    """A function that prepares the chats as TRL's SFTTrainer does when it is made, by two processes."""
    trl = pytest.importorskip("trl", reason="trl is not installed")
    datasets = pytest.importorskip("datasets", reason="datasets is not installed")
    from transformers import Qwen3Config, Qwen3ForCausalLM

    own = loaded[1]
    backend = type(own.backend).from_pretrained(own.backend.name_or_path)
    backend.chat_template = own.template
    shape = {"hidden_size": 16, "intermediate_size": 16, "num_hidden_layers": 1, "head_dim": 8}
    model = Qwen3ForCausalLM(
        Qwen3Config(**shape, vocab_size=64, num_attention_heads=2, num_key_value_heads=2)
    )
    config = trl.SFTConfig(
        output_dir=str(tmp_path),
        assistant_only_loss=True,
        max_length=None,
        dataset_num_proc=2,
        report_to="none",
        use_cpu=True,
        bf16=False,
    )
    rows = [{"messages": row.messages} for row in short]
    first = datasets.Dataset.from_list(rows[:2])
    trainer = trl.SFTTrainer(model, config, train_dataset=first, processing_class=backend)

    def prepare():
        monkeypatch.setenv("TOKENIZERS_PARALLELISM", "false")  # as it is in processes that were forked
        datasets.disable_caching()
        dataset = datasets.Dataset.from_list(rows)
        prepared = trainer._prepare_dataset(dataset, backend, config, False, None, "train")
        assert len(prepared) == len(rows)

    yield prepare
    datasets.enable_caching()


@pytest.mark.filterwarnings("ignore")  # of TRL and what it brings along
def test_ledger_beside_trl(preparation, benchmark, ratio, loaded, short, monkeypatch):
    name, own = loaded

    def both_cores():
        monkeypatch.setenv("TOKENIZERS_PARALLELISM", "true")
        return ledger(short, own)

    benchmark.group = f"ledger beside TRL, {name}"
    ratio(
        both_cores,
        preparation,
        what=f"ledger, two threads / TRL's `SFTTrainer` preparation, `dataset_num_proc=2`, {name}",
        reach="≥ 4",
        scale=told(ROWS, both_cores()),
        note="how many times faster",
        rounds=2,
        warm=False,
    )


def write_chats(path, rows):
    """A file of JSON lines."""
    lines = [json.dumps({"messages": row.messages}) for row in rows]
    path.write_text("\n".join(lines), encoding="utf-8")


CONTRACT = """contract: 1
name: benchmark
tokenizer: {{path: "{path}", chat_template: chat.jinja}}
dataset: {{path: chats.jsonl}}
lengths: {{short_threshold: 512, long_threshold: 4096, limits: {{max_tokens: 8192}}}}
"""


@pytest.fixture(scope="module")
def programs():
    """The folder of programs of an environment with the linter and this package."""
    folder = os.environ.get("LONGCTX_CORE_ENVIRONMENT")
    if folder is None:
        pytest.skip("LONGCTX_CORE_ENVIRONMENT is not set, the folder of an environment with convmerge")
    programs = Path(folder, "bin")
    if not (programs / "convmerge").is_file():
        pytest.skip(f"convmerge[tokens] is not installed in {folder}")
    return programs


@pytest.fixture
def in_a_folder(loaded, short, tmp_path, monkeypatch):
    """A function that runs a command beside a contract and its chats, with threads as the command likes."""
    monkeypatch.delenv("TOKENIZERS_PARALLELISM", raising=False)
    write_chats(tmp_path / "chats.jsonl", short)
    (tmp_path / "chat.jinja").write_text(loaded[1].template, encoding="utf-8")
    (tmp_path / "c.yaml").write_text(CONTRACT.format(path=tokenizer_path(loaded[0])), encoding="utf-8")

    def run(command):
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr

    return run


def test_contract_beside_a_linter_that_renders(programs, benchmark, ratio, loaded, short, in_a_folder):
    name, own = loaded
    theirs = [programs / "convmerge", "tokens", "-i", "chats.jsonl", "--chat-template", "chat.jinja"]
    theirs += ["--tokenizer", own.backend.name_or_path]
    ours = [
        programs / "python",
        "-m",
        "pytest",
        "-q",
        "c.yaml",
        "--longctx-cache=off",
        "-p",
        "no:cacheprovider",
    ]
    benchmark.group = f"ledger beside a linter, {name}"
    ratio(
        lambda: in_a_folder(ours),
        lambda: in_a_folder(theirs),
        what=f"a contract of all row checks, whole process / `convmerge tokens`, whole process, {name}",
        reach="≥ 1.5",
        scale=told(ROWS, ledger(short, own)),
        note="how many times faster",
        rounds=2,
    )
