"""Write the reference pages from the code: `python docs/make_reference.py`; `--check` only compares."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args, get_origin

import make_more
import yaml
from pydantic import BaseModel

from pytest_longctx.checks.catalog import CATALOG
from pytest_longctx.contract import SECTIONS, Contract
from pytest_longctx.contract.section import NamedConfig
from pytest_longctx.curriculum import BASELINE_METRICS, CANDIDATE_METRICS, FLAGS
from pytest_longctx.dataset.shapes import SHAPES
from pytest_longctx.packing.names import COLLATORS, PACKERS, TRAINERS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pydantic.fields import FieldInfo

HERE = Path(__file__).parent


def models_in(annotation: Any) -> Iterator[type[BaseModel]]:
    """The section models that a field's type holds."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for inner in get_args(annotation):
        yield from models_in(inner)


def default_of(field: FieldInfo) -> str:
    """The default as a contract would spell it; blank where there is none, or the keys below tell it."""
    if field.is_required():
        return "**required**"
    value = field.get_default(call_default_factory=True)
    if isinstance(value, NamedConfig):
        value = value.name
    elif isinstance(value, BaseModel):
        value = value.model_dump(exclude_defaults=True) or None
    if value is None:
        return ""
    text = yaml.safe_dump(value, default_flow_style=True, width=1000, sort_keys=False)
    return f"`{text.removesuffix(chr(10)).removesuffix(chr(10) + '...')}`"


def meaning_of(field: FieldInfo) -> str:
    """The description, and the values that a key takes where only some are allowed."""
    found = list(literals_in(field.annotation))
    listed = [value for value, in_list in found if in_list]
    words = [f"`{value}`" for value in dict.fromkeys(listed or (value for value, _ in found))]
    if not words:
        return field.description or ""
    kind = "A list of" if listed else "One of" if words[1:] else "Always"
    return f"{field.description} {kind} {', '.join(words)}."


def literals_in(annotation: Any, in_list: bool = False) -> Iterator[tuple[Any, bool]]:
    """The values of a type's Literals, and whether each stands in a list."""
    for inner in get_args(annotation):
        if get_origin(annotation) is Literal:
            yield inner, in_list
        else:
            yield from literals_in(inner, in_list or get_origin(annotation) is list)


def section_table(model: type[BaseModel], prefix: str) -> Iterator[str]:
    """Rows of key, default and meaning; nested mappings follow their key."""
    for name, field in model.model_fields.items():
        key = f"{prefix}{field.alias or name}"
        yield f"| `{key}` | {default_of(field)} | {meaning_of(field)} |"
        for inner in dict.fromkeys(models_in(field.annotation)):
            if inner.__name__ != "NamedConfig":
                yield from section_table(inner, f"{key}.")


def contract_page() -> str:
    """`contract.md`."""
    lines = [
        "# Contract reference",
        "",
        "Made from the models by `python docs/make_reference.py`. An unknown key is an error.",
        "`limits` fail a check, `warn` (the same keys) warn. Paths are relative to the contract.",
        "",
    ]
    top = ("contract", "name", "description")
    lines += ["| key | default | meaning |", "|---|---|---|"]
    for name in top:
        field = Contract.model_fields[name]
        lines.append(f"| `{name}` | {default_of(field)} | {meaning_of(field)} |")
    for name in (*SECTIONS, *(key for key in Contract.model_fields if key not in (*SECTIONS, *top))):
        field = Contract.model_fields[name]
        model = next(models_in(field.annotation))
        lines += [
            "",
            f"## {name}",
            "",
            field.description or "",
            "",
            "| key | default | meaning |",
            "|---|---|---|",
        ]
        lines += section_table(model, "")
        if name == "dataset":
            lines += ["", *shapes()]
        if name == "packing":
            lines += ["", *shipped()]
        if name == "curriculum":
            lines += ["", *metrics()]
    return "\n".join(lines) + "\n"


def shapes() -> Iterator[str]:
    """The columns that the rows of each shape have."""
    yield "| `shape` | columns |"
    yield "|---|---|"
    yield from (f"| `{name}` | `{shape.keys}` |" for name, shape in SHAPES.items())
    yield ""
    yield "The column of `messages` may be `conversations`, and that of `sharegpt` may be `messages`."
    yield "Optional are `input` of `alpaca`, `system` of `sharegpt` and `alpaca`, `history` of `alpaca`, and"
    yield "`tools` of chats."


def shipped() -> Iterator[str]:
    """Names that `packing` takes beside registered ones."""
    for kind, names in (("packer", PACKERS), ("collator", COLLATORS), ("trainer", TRAINERS)):
        told = (f"`{name}`{f' (extra `{extra}`)' if extra else ''}" for name, extra in names.items())
        own = f"[your own](hooks.md#pytest_longctx_{kind}s)"
        yield f"- A `{kind}` that ships: {', '.join(told)}; or the name of {own}."
    yield "- What each collator makes, and where it leaks: [isolation](isolation.md#collators)."


METRICS = {
    "long_context_score": "Number; higher is better, on the same scale in all files.",
    "short_context_score": "Number; higher is better, on the same scale in all files.",
    "supervised_tokens_per_optimizer_step": "Number above 0; the same in all files.",
    "failed_runs": "Number of runs of the stage that failed, 0 or more.",
    "peak_memory_gb": "Number, in GB; 0 or more.",
    "cost_per_supervised_token": "Number, in a unit of your own; 0 or more.",
    "loss_finite": "`true` where no loss was NaN or infinite.",
    "gradients_finite": "`true` where no norm of gradients was NaN or infinite.",
}


METRICS_FILE = """\
Where `metrics` names one file, it is a JSON object with these keys, each once; others are left alone. Where
it has `trainer_state`, `eval` and `map`, these are the keys of `map`, each with its path in one of the two
files: names joined by dots. A path that leads to several values which differ is refused. Both flags are then
read from the log of the run, unless `map` names them: `loss_finite` from `loss` and every key that ends in
`_loss`, as `eval_loss` does, `gradients_finite` from `grad_norm`.
"""
METRICS_CAVEAT = """
The trainer of transformers leaves losses of training that are not finite out of its log by default, and newer
versions leave them out of the mean of an evaluation that has finite ones too; only with
`logging_nan_inf_filter=False` does `curriculum::nonfinite_loss` see all of them in `trainer_state.json`."""


def metrics() -> Iterator[str]:
    """The keys of a file of metrics."""
    yield METRICS_FILE
    yield "| metric | baseline | stage | value |"
    yield "|---|---|---|---|"
    for name in (*CANDIDATE_METRICS, *FLAGS):
        baseline = "required" if name in BASELINE_METRICS else "not read"
        yield f"| `{name}` | {baseline} | required | {METRICS[name]} |"
    yield "| `target_context_len` | optional | optional | The window; the contract's, if that names one. |"
    yield METRICS_CAVEAT


def checks_page() -> str:
    """`checks.md`."""
    lines = [
        "# The checks",
        "",
        "Made from the code by `python docs/make_reference.py`. Each check is one test item,",
        "`contract.yaml::section::check`, with one more level for slices, stages and kinds of attention.",
        "A limit is a check where [the contract](contract.md) sets it. `longctx explain CHECK` prints one.",
    ]
    section = ""
    for name, entry in CATALOG.items():
        if name.partition("::")[0] != section:
            section = name.partition("::")[0]
            lines += ["", f"## {section}"]
        lines += ["", f"### {name}", "", entry.measures, "", f"*Why it matters.* {entry.matters}"]
        lines += ["", f"*How to mend it.* {entry.mend}"]
    return "\n".join(lines) + "\n"


PAGES = {"contract.md": contract_page, "checks.md": checks_page, **make_more.PAGES}


def main() -> int:
    """Write the pages, or say which are not current."""
    stale = [name for name, page in PAGES.items() if _text(HERE / name) != page()]
    if "--check" in sys.argv:
        sys.stdout.writelines(
            f"docs/{name} is not current: python docs/make_reference.py\n" for name in stale
        )
        return len(stale)
    for name in stale:
        (HERE / name).write_text(PAGES[name](), encoding="utf-8")
    return 0


def _text(path: Path) -> str:
    return path.read_text(encoding="utf-8") if path.is_file() else ""


if __name__ == "__main__":
    sys.exit(main())
