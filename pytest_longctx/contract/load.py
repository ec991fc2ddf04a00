"""A contract file → Contract, or all that is wrong with it."""

from __future__ import annotations

import hashlib
import os
import stat
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from pytest_longctx.contract.messages import UNKNOWN, faults_of, nearest, show
from pytest_longctx.contract.schema import Contract, Draft
from pytest_longctx.contract.section import Fault, Key
from pytest_longctx.contract.yaml import START, Document, Place, YamlError, parse
from pytest_longctx.errors import ContractError, Problem

MAX_BYTES = 1 << 20
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"


def load_contract(path: str | os.PathLike[str]) -> Contract:
    """Read and validate a contract.

    Raises:
        ContractError: with every problem of the file, in the order of its lines.
    """
    display = display_path(path)
    try:
        raw, text = _read(Path(path))
        document = parse(text)
        if document.data is None:
            raise YamlError(START, "the file is empty, expected a contract that starts with contract: 1")
    except YamlError as error:
        raise ContractError([_problem(display, error.place, error.key, error.message)]) from None
    absolute = Path(os.path.abspath(path))  # noqa: PTH100 - resolve() would follow symlinks
    contract, faults = _validate(document, absolute.parent)
    problems = [_problem(display, error.place, error.key, error.message) for error in document.faults]
    refused = {error.place for error in document.faults}
    for fault in faults:
        place = _place(document, fault)
        if place not in refused:
            problems.append(_problem(display, place, fault.key, fault.message))
    if contract is None or problems:
        raise ContractError(sorted(problems, key=lambda problem: (problem.line, problem.column)))
    contract._path, contract._display, contract._document = absolute, display, document
    contract._sha256 = hashlib.sha256(raw).hexdigest()
    return contract


def unreadable(path: str | os.PathLike[str]) -> Contract:
    """What a report can say of a contract that `load_contract` refuses: its place, and no section."""
    contract = Draft.model_construct(contract=1)
    contract._path, contract._display = Path(os.path.abspath(path)), display_path(path)  # noqa: PTH100
    return contract


def display_path(path: str | os.PathLike[str]) -> str:
    """A path for messages: relative to the working folder when below it, else as given."""
    given = Path(path)
    absolute = Path(os.path.abspath(given))  # noqa: PTH100 - resolve() would follow symlinks
    try:
        return absolute.relative_to(Path.cwd()).as_posix()
    except ValueError:
        return given.as_posix()


def _problem(display: str, place: Place, key: Key, message: str) -> Problem:
    return Problem(display, place.line, place.column, ".".join(map(_printable, key)), message)


def _printable(part: str | int) -> str:
    text = str(part)
    shown = text if text.isprintable() else repr(text)[1:-1]
    return shown if len(shown) <= 80 else f"{shown[:79]}…"


def _read(path: Path) -> tuple[bytes, str]:
    try:
        mode = path.stat().st_mode
        if stat.S_ISDIR(mode):
            raise YamlError(START, "found a folder, expected a contract file")
        # A pipe or a device may never end.
        if not stat.S_ISREG(mode):
            raise YamlError(START, "found a device, pipe or socket, expected a regular file")
        with path.open("rb") as file:
            raw = file.read(MAX_BYTES + 1)
    except FileNotFoundError:
        raise YamlError(START, "there is no such file") from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise YamlError(START, f"the file cannot be read: {reason}") from None
    if len(raw) > MAX_BYTES:
        raise YamlError(START, "the file is larger than 1 MiB, which no contract is")
    return raw, _decode(raw)


def _decode(raw: bytes) -> str:
    if raw.startswith(_BYTE_ORDER_MARK):
        raise YamlError(START, "the file starts with a byte order mark: save it as UTF-8 without one")
    try:
        return raw.decode()
    except UnicodeDecodeError as error:
        before = raw[: error.start]
        place = Place(before.count(b"\n") + 1, len(before) - before.rfind(b"\n"))
        raise YamlError(place, f"the file is not UTF-8: byte 0x{raw[error.start]:02x}") from None


def _place(document: Document, fault: Fault) -> Place:
    """The key when it is itself the fault, else the value."""
    if fault.message.startswith((UNKNOWN, "missing")) or fault.key not in document.values:
        return document.key(fault.key)
    return document.value(fault.key)


def _validate(document: Document, folder: Path) -> tuple[Contract | None, list[Fault]]:
    data = document.data
    if not isinstance(data, dict):
        return None, [Fault((), f"found {show(data)}, expected a mapping that starts with contract: 1")]
    version = _version_fault(data)
    if version is not None and "contract" in data:
        return None, [version]
    faults = [version] if version else []
    context = {"folder": folder}
    contract: Contract | None = None
    try:
        contract = Contract.model_validate(data, context=context)
    except ValidationError as error:
        faults += [fault for fault in faults_of(error, data) if fault.key != ("contract",)]
        faults += _draft_faults(data, faults, context)
    faults += _tokenizer_fault(data)
    return contract, [_explain(fault) for fault in faults]


def _version_fault(data: dict[str, Any]) -> Fault | None:
    key = ("contract",)
    if "contract" not in data:
        return Fault(key, "missing: a contract starts with contract: 1")
    version = data["contract"]
    if type(version) is not int or version != 1:
        return Fault(key, f"found {show(version)}, expected 1: this release knows no other version")
    if next(iter(data)) != "contract":
        return Fault(key, "must be the first key of the file")
    return None


def _draft_faults(data: dict[str, Any], faults: list[Fault], context: dict[str, Path]) -> list[Fault]:
    """The rules between sections, over those that are sound."""
    broken = {fault.key[0] for fault in faults if fault.key}
    sound = {"contract": 1} | {name: value for name, value in data.items() if name not in broken}
    try:
        Draft.model_validate(sound, context=context)
    except ValidationError as error:
        return [fault for fault in faults_of(error, sound) if fault not in faults]
    return []


def _tokenizer_fault(data: dict[str, Any]) -> list[Fault]:
    """Only rows of lengths alone do without a tokenizer.

    Read off the raw data, where an absent section can be told from one that was left out as broken.
    """
    dataset = data.get("dataset")
    lengths = isinstance(dataset, dict) and dataset.get("shape") == "lengths"
    return [] if lengths or data.get("tokenizer") is not None else [Fault(("tokenizer",), "missing")]


def _explain(fault: Fault) -> Fault:
    return Fault(fault.key, nearest(fault.key, Contract)) if fault.message == UNKNOWN else fault
