"""What every section of a contract is made of: strict models, bounded numbers, faults at a key."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field
from pydantic_core import PydanticCustomError

if TYPE_CHECKING:
    from collections.abc import Iterable

Key = tuple[str | int, ...]


@dataclass(frozen=True, slots=True)
class Fault:
    """A broken rule between keys; `key` is relative to the model that holds the rule."""

    key: Key
    message: str


def refuse(faults: Iterable[Fault]) -> None:
    """Raise all faults of a model as one pydantic error; the loader takes them apart again."""
    found = tuple(faults)
    if found:
        text = "; ".join(f"{'.'.join(map(str, fault.key))}: {fault.message}" for fault in found)
        raise PydanticCustomError("faults", "{text}", {"text": text, "faults": found})


class Section(BaseModel):
    """A strict, frozen mapping: no unknown key, no conversion between types, no infinite number."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)


def _not_blank(text: str) -> str:
    if not text.strip():
        raise PydanticCustomError("blank", "blank text")
    return text


Text = Annotated[str, AfterValidator(_not_blank), Field(max_length=4096)]
Name = Annotated[str, Field(pattern=r"^[a-z0-9_]+$", max_length=80)]
Commit = Annotated[str, Field(pattern=r"^[0-9a-f]{40}$")]
Ratio = Annotated[float, Field(ge=0, le=1)]
Count = Annotated[int, Field(ge=0)]
Positive = Annotated[int, Field(ge=1)]
Amount = Annotated[float, Field(gt=0)]
# Token positions are int32 in every layout.
Tokens = Annotated[int, Field(ge=0, le=2**31 - 1)]
Window = Annotated[int, Field(ge=1, le=2**31 - 1)]


class NamedConfig(Section):
    """A packer, collator or trainer by name, with its own settings."""

    name: Text = Field(description="The registered name.")
    config: dict[str, Any] = Field(default_factory=dict, description="Settings handed on as they are.")


def _spell_out(value: Any) -> Any:
    if isinstance(value, str):
        return {"name": value}
    if isinstance(value, dict | NamedConfig):
        return value
    raise PydanticCustomError("expected", "{expected}", {"expected": "a name, or {name: …, config: {…}}"})


Named = Annotated[NamedConfig, BeforeValidator(_spell_out, json_schema_input_type=str | NamedConfig)]


def contradictions(limits: Section) -> list[Fault]:
    """Pairs `min_x`, `max_x` of one model that no value can meet."""
    faults = []
    for name, low in limits:
        high = getattr(limits, f"max_{name.removeprefix('min_')}", None)
        if name.startswith("min_") and low is not None and high is not None and low > high:
            other = f"max_{name.removeprefix('min_')}"
            faults.append(Fault(("limits", name), f"{low} is above {other} {high}: no value meets both"))
    return faults


def looser_warnings(limits: Section, warn: Section) -> list[Fault]:
    """Warnings that could never be seen, because the limit fails first."""
    faults = []
    for name, warned in warn:
        limit = getattr(limits, name)
        if warned is None or limit is None:
            continue
        if warned < limit if name.startswith("min_") else warned > limit:
            expected = f"at least {limit}" if name.startswith("min_") else f"at most {limit}"
            faults.append(
                Fault(
                    ("warn", name),
                    f"found {warned}, expected {expected}: the limit would fail before this can warn",
                )
            )
    return faults


def limit_faults(limits: Section, warn: Section) -> list[Fault]:
    """All faults of a section's `limits` and `warn`."""
    inner = [Fault(("warn", *fault.key[1:]), fault.message) for fault in contradictions(warn)]
    return [*contradictions(limits), *inner, *looser_warnings(limits, warn)]
