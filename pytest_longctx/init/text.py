"""A proposal as a commented contract."""

from __future__ import annotations

import json
import re
import textwrap
from typing import TYPE_CHECKING, Any

from pytest_longctx.init.limits import ROOM
from pytest_longctx.report.text import plain
from pytest_longctx.verdict import shown

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pytest_longctx.init.files import Written
    from pytest_longctx.init.proposal import Proposal
    from pytest_longctx.init.source import Source

_PLAIN = re.compile(r"(\./|(\.\./)+)?[A-Za-z_][\w./-]*(:[\w./-]+)*", re.ASCII)
_WORDS = frozenset({"true", "false", "null", "yes", "no", "on", "off"})
_COMMENT = 44  # column of comments behind values


def contract_text(proposal: Proposal, source: Source, name: str, schema: str) -> str:
    """The contract as YAML.

    Args:
        source: as seen from the contract's folder.
        schema: what editors find the JSON Schema by, relative to the contract.
    """
    sections = (
        _head(proposal, name, schema),
        _tokenizer(proposal, source),
        _dataset(proposal, source),
        _supervision(proposal),
        _lengths(proposal),
        _window(proposal),
        _packing(proposal),
        _waivers(proposal),
    )
    return "\n".join("\n".join(lines) + "\n" for lines in map(list, sections) if lines)


def scalar(value: Any) -> str:
    """One value; text is quoted where YAML would read something else, or a later reader might."""
    if isinstance(value, list):
        return f"[{', '.join(map(scalar, value))}]"
    if isinstance(value, str) and _PLAIN.fullmatch(value) and value.lower() not in _WORDS:
        return value
    return json.dumps(value, ensure_ascii=False)


def _line(text: str, comment: str = "") -> str:
    return f"{text:<{_COMMENT}}# {comment}" if comment else text


def _head(proposal: Proposal, name: str, schema: str) -> Iterator[str]:
    samples = f"{proposal.lengths.count:,} samples"
    yield f"# yaml-language-server: $schema={schema}"
    yield f"# Proposed by longctx init on {proposal.today} from {samples}. Room over what was measured:"
    yield f"# {ROOM[0]}"
    yield f"# {ROOM[1]}."
    yield "contract: 1"
    yield f"name: {scalar(name)}"


def _tokenizer(proposal: Proposal, source: Source) -> Iterator[str]:
    if "tokenizer" not in proposal.terms:
        return
    yield "tokenizer:"
    yield f"  path: {scalar(source.tokenizer)}"
    if source.revision:
        yield f"  revision: {scalar(source.revision)}"
    if template := proposal.template or source.template:
        yield f"  chat_template: {scalar(template)}"
    if proposal.fingerprint:
        yield "  # of tokenizer files and template: a change of either fails tokenizer::pinned"
        yield f"  fingerprint: {proposal.fingerprint}"


def _dataset(proposal: Proposal, source: Source) -> Iterator[str]:
    columns, data = proposal.columns, list(source.data)
    yield "dataset:"
    yield f"  path: {scalar(data[0] if len(data) == 1 else data)}"
    for name, value in source.pin:
        yield f"  {name}: {scalar(value)}"
    yield _line(f"  shape: {proposal.shape}", proposal.recognised)
    if columns.id:
        yield f"  id: {scalar(columns.id)}"
    for name, values in columns.slices.items():
        yield _line(
            f"  # slices: {scalar(name)}",
            f"{values} values; limits of lengths and window would hold per value",
        )
    yield from _limits(proposal, "dataset")


def _supervision(proposal: Proposal) -> Iterator[str]:
    if turns := proposal.terms.get("supervision", {}).get("turns"):
        yield "supervision:"
        yield f"  turns: {turns}"


def _lengths(proposal: Proposal) -> Iterator[str]:
    lengths = proposal.lengths
    yield "lengths:"
    yield f"  # median {lengths.percentile(50):,}, longest {lengths.longest:,} tokens"
    for name, value in proposal.thresholds.items():
        yield f"  {name}: {value}"
    yield from _limits(proposal, "lengths")


def _window(proposal: Proposal) -> Iterator[str]:
    fit = proposal.lengths.up_to(proposal.window) / proposal.lengths.count
    yield "window:"
    for name, value in proposal.policy.items():
        comment = f"{shown(fit, 'ratio')} of the samples fit" if name == "target_context_len" else ""
        yield _line(f"  {name}: {value}", comment)
    yield from _limits(proposal, "window")


def _packing(proposal: Proposal) -> Iterator[str]:
    if proposal.packing is None:
        return
    yield "packing:"
    for name, value in proposal.packing.items():
        yield f"  {name}: {value}"
    yield "  # or, in place of both, SFTTrainer's own dataloader:"
    # TRL masks prompts by itself, and turns only when asked; it refuses the key for rows that are no chats.
    masked = ", assistant_only_loss: true" if proposal.shape in ("messages", "sharegpt", "alpaca") else ""
    yield f"  # trainer: {{name: trl_sft, config: {{packing: true, max_length: {proposal.window}{masked}}}}}"
    yield from _limits(proposal, "packing")


def _limits(proposal: Proposal, section: str) -> Iterator[str]:
    limits = proposal.limits.get(section, {})
    if limits:
        yield "  limits:"
    for name, limit in limits.items():
        yield _line(f"    {name}: {limit.value}", f"{limit.note} on {proposal.today}")


def _waivers(proposal: Proposal) -> Iterator[str]:
    if proposal.waived:
        yield "# What fails today. A waiver fails the run once its day is over, or once it is not needed."
        yield "waivers:"
    for check, reason in proposal.waived.items():
        yield f"  - check: {scalar(check)}"
        yield f"    until: {proposal.until}"
        yield f"    reason: {scalar('found by longctx init: ' + reason)}"


def report_lines(proposal: Proposal, written: Written) -> Iterator[str]:
    """What `longctx init` says at the end, free of control characters."""
    lengths, path = proposal.lengths, written.path
    yield f"{lengths.count:,} samples, {proposal.recognised}"
    yield (
        f"tokens: median {lengths.percentile(50):,}, 95 % up to {lengths.percentile(95):,}, longest "
        f"{lengths.longest:,}; a window of {proposal.window:,} holds "
        f"{shown(lengths.up_to(proposal.window) / lengths.count, 'ratio')} of the samples"
    )
    if proposal.notes:
        yield "worth a look:"
    for note in proposal.notes:
        yield from textwrap.wrap(plain(note), 100, initial_indent="  - ", subsequent_indent="    ")
    outcomes = ", ".join(f"{count} {name}" for name, count in written.outcomes.most_common())
    yield f"wrote {path}: {outcomes}"
    yield f"next: pytest --longctx-contract={path}"
