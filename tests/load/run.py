"""A run over a million rows, and the same one killed halfway: `python tests/load/run.py [ROWS]`.

Writes ROWS tokenized rows (400 tokens each on average) to a Parquet file, runs a contract on them, and
prints wall time, processor time and peak memory. Then runs it anew, kills it by SIGKILL once half of the rows
are in the cache, starts it again, and compares: the report must be the same, and no row of the first half may
be measured twice.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import numpy as np

ROOT = Path(__file__).parents[2]
MEAN, GROUP = 400, 20_000
CONTRACT = """\
contract: 1
tokenizer: {{path: {examples}/tokenizer, chat_template: {examples}/chatml.jinja}}
dataset: {{path: rows.parquet, shape: tokenized}}
lengths: {{short_threshold: 256, long_threshold: 1024, limits: {{max_tokens: 8192}}}}
window: {{target_context_len: 8192, limits: {{max_overflow_ratio: 0.0}}}}
packing: {{packer: ffd, collator: flattening, max_tokens_per_bin: 8192, limits: {{min_utilization: 0.99}}}}
"""


def write_rows(path: Path, rows: int, mean: int = MEAN) -> int:
    """Rows of random ids; the second half of each is supervised. Returns the tokens."""
    import pyarrow as pa
    from pyarrow import parquet

    random, tokens = np.random.default_rng(0), 0
    schema = pa.schema({"input_ids": pa.list_(pa.int32()), "labels": pa.list_(pa.int32())})
    with parquet.ParquetWriter(path, schema) as writer:
        for start in range(0, rows, GROUP):
            lengths = np.clip(random.geometric(1 / mean, min(GROUP, rows - start)), 8, 8192)
            offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
            ids = random.integers(300, 4000, offsets[-1], dtype=np.int32)
            place = np.arange(offsets[-1]) - np.repeat(offsets[:-1], lengths)
            labels = np.where(place < np.repeat(lengths // 2, lengths), -100, ids).astype(np.int32)
            columns = [pa.ListArray.from_arrays(offsets, values) for values in (ids, labels)]
            writer.write_batch(pa.record_batch(columns, schema=schema))
            tokens += int(offsets[-1])
    return tokens


class Run:
    """pytest on the contract, with its memory looked at ten times a second."""

    def __init__(self, folder: Path, cache: Path, report: str) -> None:
        command = [
            sys.executable,
            "-m",
            "pytest",
            "--longctx-contract=load.yaml",
            "-q",
            "-p",
            "no:cacheprovider",
        ]
        options = [f"--longctx-cache={cache}", f"--longctx-report={report}", "-o", "longctx_cache_gib=64"]
        self.start, self.own, self.mapped = time.monotonic(), 0, 0
        self.process = subprocess.Popen(
            [*command, *options], cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        self._watch = threading.Thread(target=self._look, daemon=True)
        self._watch.start()

    def _look(self) -> None:
        status = Path(f"/proc/{self.process.pid}/status")
        while self.process.poll() is None:
            try:
                lines = dict(line.split(":", 1) for line in status.read_text().splitlines())
                self.own = max(self.own, int(lines["RssAnon"].split()[0]))
                self.mapped = max(self.mapped, int(lines["RssFile"].split()[0]))
            except (OSError, KeyError, ValueError):
                pass
            time.sleep(0.1)

    def end(self) -> str:
        """Wait; the last line of the output."""
        before = os.times()
        output, _ = self.process.communicate()
        after = os.times()
        seconds = time.monotonic() - self.start
        cpu = after.children_user + after.children_system - before.children_user - before.children_system
        memory = f"own memory {self.own >> 10:,} MiB at most, mapped files {self.mapped >> 10:,} MiB"
        return f"{output.strip().splitlines()[-1]}: {seconds:,.0f} s, processor {cpu:,.0f} s, {memory}"


def contents(path: Path) -> object:
    """What the report says, without the time of the run."""
    return json.loads(path.read_text())["contracts"]


def packs(cache: Path) -> dict[str, int]:
    """Packs by name, with when they were written."""
    return {path.name: path.stat().st_size for path in cache.glob("*/*.arrow")}


def main(rows: int) -> int:
    """0 when the resumed run says the same and did not measure the first half again."""
    with tempfile.TemporaryDirectory(prefix="longctx-load-") as name:
        folder = Path(name)
        tokens = write_rows(folder / "rows.parquet", rows)
        (folder / "load.yaml").write_text(CONTRACT.format(examples=ROOT / "examples"))
        print(f"{rows:,} rows, {tokens:,} tokens", flush=True)
        print("a run:         ", Run(folder, folder / "whole", "whole.json").end(), flush=True)
        whole = packs(folder / "whole")
        killed = Run(folder, folder / "half", "half.json")
        while len(packs(folder / "half")) < len(whole) // 2 and killed.process.poll() is None:
            time.sleep(0.05)
        killed.process.send_signal(signal.SIGKILL)
        killed.process.wait()
        half = packs(folder / "half")
        assert not (folder / "half.json").exists()
        seconds = time.monotonic() - killed.start
        print(f"killed after {seconds:,.0f} s, {len(half)} of {len(whole)} packs written", flush=True)
        print("started again: ", Run(folder, folder / "half", "half.json").end(), flush=True)
        reports = [contents(folder / f"{name}.json") for name in ("whole", "half")]
        same = reports[0] == reports[1]
        kept = half.items() <= packs(folder / "half").items() and packs(folder / "half") == whole
        print(f"the same report: {same}; no row measured twice: {kept}")
        return int(not (same and kept))


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000))
