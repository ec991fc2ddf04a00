"""The isolation probe as items: the contract's own collator, model and call."""

from __future__ import annotations

import pytest

CONTRACT = "--longctx-contract=contracts/sft.yaml"
# Every run is a process of its own: torch registers its libraries once a process, and pytester imports anew.


def contract(project, collator="trl_padding_free", **isolation):
    terms = {"model": "qwen2", "attention": ["sdpa"], "forward": {"use_cache": False}, **isolation}
    return project(packing={"packer": "ffd", "collator": collator}, isolation=terms)


def test_padding_free_batches_isolate(pytester, project):
    pytest.importorskip("trl", reason="trl is not installed")
    contract(project)
    result = pytester.runpytest_subprocess(CONTRACT, "-m", "longctx_isolation", "-v")
    result.assert_outcomes(passed=5, deselected=result.parseoutcomes()["deselected"])
    result.stdout.fnmatch_lines(["*isolation::logits::sdpa PASSED*"])


def test_the_same_batches_leak_when_a_cache_is_made(pytester, project):
    pytest.importorskip("trl", reason="trl is not installed")
    contract(project, forward={"use_cache": True})
    result = pytester.runpytest_subprocess(CONTRACT, "-m", "longctx_isolation")
    assert result.parseoutcomes()["failed"] == 5
    result.stdout.fnmatch_lines(["logits sdpa: leaks, by *", "*packed samples see each other*"])
    result.stdout.fnmatch_lines(["call_matrix sdpa: leaks, by *", "*mask *cache *metadata *outcome*"])


def test_sfttrainer_makes_no_cache(pytester, project):
    pytest.importorskip("trl", reason="trl is not installed")
    config = {"max_length": 64, "packing": True, "assistant_only_loss": True}
    trainer = {"name": "trl_sft", "config": config}
    project(packing={"trainer": trainer}, isolation={"model": "qwen2", "attention": ["sdpa"]})
    result = pytester.runpytest_subprocess(CONTRACT, "-m", "longctx_isolation")
    result.assert_outcomes(passed=5, deselected=result.parseoutcomes()["deselected"])


def test_a_bool_mask_leaks_under_eager_only(pytester, project):
    contract(project, collator="block_mask", attention=["eager", "sdpa"])
    result = pytester.runpytest_subprocess(CONTRACT, "-m", "longctx_isolation", "-k", "logits", "-rf")
    result.stdout.fnmatch_lines(["FAILED *::isolation::logits::eager*"])
    result.stdout.no_fnmatch_line("FAILED *::isolation::logits::sdpa*")


def test_what_cannot_run_here_skips_unless_required(pytester, project):
    torch = pytest.importorskip("torch", reason="torch is not installed")
    if torch.cuda.is_available():
        pytest.skip("a CUDA device is here, so flash attention may run")
    contract(project, collator="block_mask", attention=["flash_attention_2"])
    run = (CONTRACT, "-m", "longctx_isolation", "-k", "logits")
    skipped = pytester.runpytest_subprocess(*run, "-rs")
    assert skipped.parseoutcomes()["skipped"] == 1
    skipped.stdout.fnmatch_lines(["SKIPPED*flash_attention_2*CUDA*"])
    required = pytester.runpytest_subprocess(*run, "--longctx-require=flash_attention_2")
    assert required.parseoutcomes()["failed"] == 1
    required.stdout.fnmatch_lines(["flash_attention_2 is required and cannot run here"])


@pytest.mark.parametrize("required", ["gpu", "sdpa"])
def test_a_cuda_device_that_is_missing_skips_unless_it_or_the_attention_is_required(
    pytester, project, required
):
    torch = pytest.importorskip("torch", reason="torch is not installed")
    if torch.cuda.is_available():
        pytest.skip("a CUDA device is here")
    contract(project, collator="block_mask", device="cuda")
    run = (CONTRACT, "-m", "longctx_isolation")
    skipped = pytester.runpytest_subprocess(*run, "-rs")
    assert skipped.parseoutcomes()["skipped"] == 5
    skipped.stdout.fnmatch_lines(["SKIPPED*isolation.device: cuda*"])
    failed = pytester.runpytest_subprocess(*run, f"--longctx-require={required}")
    assert failed.parseoutcomes()["failed"] == 5
    failed.stdout.fnmatch_lines([f"{required} is required and cannot run here"])


def test_an_unknown_architecture_names_the_nearest(pytester, project):
    contract(project, collator="block_mask", model="qwen22")
    result = pytester.runpytest_subprocess(CONTRACT, "-m", "longctx_isolation", "-k", "logits")
    assert result.ret == 1
    text = " ".join(result.stdout.str().split())
    assert "qwen22" in text
    assert "qwen2" in text.replace("qwen22", "")
    assert "Traceback" not in text


def test_isolation_needs_packing(pytester, project):
    project(packing=None, isolation={"model": "qwen2"})
    result = pytester.runpytest_subprocess(CONTRACT)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*isolation: needs the section packing*"])
