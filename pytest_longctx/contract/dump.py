"""Contract → YAML text."""

from __future__ import annotations

from typing import TYPE_CHECKING

import yaml

from pytest_longctx.contract.yaml import resolve

if TYPE_CHECKING:
    from pytest_longctx.contract.schema import Contract


class _Dumper(yaml.SafeDumper):
    """PyYAML's dumper; it knows YAML 1.1 only, so text that 1.2 takes for a number is quoted here."""

    def ignore_aliases(self, data: object) -> bool:
        return True


def _text(dumper: _Dumper, text: str) -> yaml.ScalarNode:
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=None if _is_plain(text) else '"')


def _is_plain(text: str) -> bool:
    """Whether text comes back unquoted, or in quotes that PyYAML chooses."""
    # PyYAML writes these line breaks as they are, and reads them as blanks.
    if any(sign in text for sign in "\x85\u2028\u2029"):
        return False
    try:
        return bool(resolve(text) == text)
    except OverflowError:
        return False


_Dumper.add_representer(str, _text)


def dump(contract: Contract) -> str:
    """The keys that were set, as YAML that loads to the same contract."""
    data = contract.model_dump(by_alias=True, exclude_unset=True)
    text: str = yaml.dump(data, Dumper=_Dumper, sort_keys=False, allow_unicode=True)
    return text
