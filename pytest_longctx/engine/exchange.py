"""Packs of entries between machines that share no folder: through an object store, by fsspec."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pytest_longctx.errors import LongctxError

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path


def send(url: str, folder: Path, names: Iterable[str]) -> None:
    """Put packs into the store at `url`: each under another name first, then renamed.

    Raises:
        LongctxError: the store cannot be written.
    """
    system, root = _open(url)
    try:
        system.makedirs(root, exist_ok=True)
        for name in names:
            system.put_file(str(folder / name), f"{root}/{name}.unfinished")
            system.mv(f"{root}/{name}.unfinished", f"{root}/{name}")
    # Stores of many kinds raise exceptions of their own.
    except Exception as error:
        raise LongctxError(f"{url}: packs cannot be written: {error}") from error


def receive(url: str, folder: Path, names: Iterable[str]) -> None:
    """Bring packs into a folder; what arrives damaged is not read.

    Raises:
        LongctxError: the store cannot be read.
    """
    system, root = _open(url)
    try:
        for name in names:
            unfinished = folder / f"{name}.unfinished"
            system.get_file(f"{root}/{name}", str(unfinished))
            unfinished.replace(folder / name)
    except Exception as error:  # as above
        raise LongctxError(f"{url}: packs cannot be read: {error}") from error


def _open(url: str) -> tuple[Any, str]:
    import fsspec

    try:
        system, root = fsspec.core.url_to_fs(url)
    except (ValueError, ImportError) as error:
        raise LongctxError(f"--longctx-exchange: {url}: {error}") from error
    return system, str(root).rstrip("/")
