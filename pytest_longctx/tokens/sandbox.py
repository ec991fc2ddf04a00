"""Chat templates in transformers' own sandbox, where no single step may make something huge.

Jinja's sandbox keeps templates from the interpreter's insides, but not from `'x' * 10**12` or `9**9**9`, one
step of native code, which nothing can stop, and which Jinja takes already while it compiles. So operators,
methods and filters whose result can be far larger than what they are given ask first. What grows step by step
is left to `deadline`.
"""

from __future__ import annotations

import functools
import re
from types import BuiltinMethodType, FunctionType, MethodType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

MAX_SIZE = 1 << 24  # characters or items that one step may make
MAX_BITS = 1 << 14  # of a whole number
_OPERATORS = frozenset({"*", "**", "%"})
_SCALARS = frozenset({str, int, bool})
_DICT_NAMES = frozenset(dir(dict))
_WIDTH = re.compile(r"\d{6,}")


class TooLargeError(Exception):
    """A step of a template would make something huge."""


def compile_template(text: str) -> Any:
    """The compiled template, as transformers compiles it, with bounded steps. Errors are Jinja's."""
    return _environment().from_string(text)


@functools.lru_cache(maxsize=64)
def _compiled(text: str) -> Any:
    return compile_template(text)


@functools.lru_cache(maxsize=1)
def bounded_renderer() -> Callable[..., Any]:
    """`render_jinja_template` of the installed transformers, which compiles by this module.

    A copy of the function with one name bound anew: nothing changes for others in the process.
    """
    from transformers.utils.chat_template_utils import render_jinja_template as original

    names = {**original.__globals__, "_compile_jinja_template": _compiled}
    copy = FunctionType(original.__code__.replace(), names, original.__name__, original.__defaults__)
    copy.__kwdefaults__ = original.__kwdefaults__
    return copy


@functools.lru_cache(maxsize=1)
def _environment() -> Any:
    """The environment of a template of transformers, with its filters and globals, and with bounded steps."""
    from jinja2.runtime import LoopContext
    from jinja2.sandbox import ImmutableSandboxedEnvironment
    from transformers.utils.chat_template_utils import _compile_jinja_template

    class BoundedEnvironment(ImmutableSandboxedEnvironment):
        intercepted_binops = _OPERATORS

        def getattr(self, obj: Any, attribute: str) -> Any:
            # What Jinja does for messages, texts, loops and namespaces, without an error caught and a dozen
            # questions each.
            if type(obj) is dict and attribute not in _DICT_NAMES:
                return obj[attribute] if attribute in obj else self.undefined(obj=obj, name=attribute)
            if type(obj) is str and attribute in _SMALL_METHODS:
                return getattr(obj, attribute)
            if type(obj) in holders and type(value := _public(obj, attribute)) in _SCALARS:
                return value
            return super().getattr(obj, attribute)

        def call_binop(self, context: Any, operator: str, left: Any, right: Any) -> Any:
            _bound_operator(operator, left, right)
            return super().call_binop(context, operator, left, right)

        def wrap_str_format(self, value: Any) -> Any:
            # Jinja asks this of everything that a template takes off an object.
            if type(value) is not BuiltinMethodType and type(value) is not MethodType:
                return None
            bound = _METHODS.get(value.__name__)
            if bound is None or not isinstance(value.__self__, str):
                return None
            return _bounded_method(bound, value.__self__, super().wrap_str_format(value) or value)

    environment = _compile_jinja_template("{# bounded #}").environment
    holders = {LoopContext, environment.globals["namespace"]}
    # The same object, since the extension that follows generation blocks is bound to it.
    environment.__class__ = BoundedEnvironment
    environment.globals["lipsum"] = _bounded_lipsum(environment.globals["lipsum"])
    for name, bound in _FILTERS.items():
        environment.filters[name] = _bounded_filter(bound, environment.filters[name])
    return environment


def _public(obj: Any, attribute: str) -> Any:
    return None if attribute.startswith("_") else getattr(obj, attribute, None)


def _refuse(size: float) -> None:
    if size > MAX_SIZE:
        raise TooLargeError(f"one step would make more than {MAX_SIZE:,} characters or items")


def _length(value: Any) -> int:
    return len(value) if isinstance(value, str | bytes | list | tuple | dict) else 0


def _longest(values: Iterable[Any]) -> int:
    return max(map(_length, values), default=0)


def _largest(values: Iterable[Any]) -> int:
    return max((abs(value) for value in values if isinstance(value, int)), default=0)


def _bits(value: Any) -> int:
    return value.bit_length() if isinstance(value, int) else 0


def _bound_operator(operator: str, left: Any, right: Any) -> None:
    if operator == "%":
        if isinstance(left, str):
            values = right if isinstance(right, tuple) else (right,)
            _bound_format(left, "%", values.values() if isinstance(values, dict) else values)
        return
    if operator == "*":
        _refuse(_length(left) * _largest([right]))
        _refuse(_length(right) * _largest([left]))
    bits, times = _bits(left), _largest([right])
    if bits > 1 and (bits * times if operator == "**" else bits + _bits(right)) > MAX_BITS:
        raise TooLargeError(f"one step would make a number of more than {MAX_BITS:,} bits")


def _bound_format(text: str, sign: str, values: Iterable[Any]) -> None:
    """Widths stand in the text or among the values, and a value may be put in many times."""
    given = [each for value in values for each in (value.values() if isinstance(value, dict) else (value,))]
    by_value = "*" in text if sign == "%" else "{" in text.partition(":")[2]
    _refuse(max([float(_largest(given)) if by_value else 0.0, *map(float, _WIDTH.findall(text))]))
    _refuse(text.count(sign) * _longest(given))


def _bounded_method(bound: Callable[..., None], text: str, method: Callable[..., Any]) -> Callable[..., Any]:
    """A method of a text, asking first."""

    def bounded(*args: Any, **kwargs: Any) -> Any:
        bound(text, *args, **kwargs)
        return method(*args, **kwargs)

    return bounded


def _bounded_lipsum(lipsum: Callable[..., Any]) -> Callable[..., Any]:
    def bounded(*args: Any, **kwargs: Any) -> Any:
        _refuse(1000 * _largest((*args, *kwargs.values())))
        return lipsum(*args, **kwargs)

    return bounded


# The parameters are named as those of Jinja's filters and of `str`'s methods.
def _pad(text: Any, *values: Any, **named: Any) -> None:
    _refuse(_largest((*values, *named.values())))


def _replace(text: Any, old: Any = "", new: Any = "", count: Any = None) -> None:
    if isinstance(text, str) and isinstance(old, str):
        _refuse(text.count(old) * _length(new))


def _join(items: Any, d: Any = "", attribute: Any = None) -> None:
    if isinstance(items, str | list | tuple | dict):
        _refuse(sum(map(_length, items)) + len(items) * _length(d))


def _indent(text: Any, width: Any = 4, first: Any = False, blank: Any = False) -> None:
    if isinstance(text, str):
        _refuse((text.count("\n") + 1) * (_length(width) or _largest([width])))


def _wordwrap(
    text: Any,
    width: Any = 79,
    break_long_words: Any = True,
    wrapstring: Any = "",
    break_on_hyphens: Any = True,
) -> None:
    _refuse(_length(text) * _length(wrapstring))


def _round(value: Any, precision: Any = 0, method: Any = "common") -> None:
    _refuse(1000 * _largest([precision]))


def _expandtabs(text: str, tabsize: Any = 8) -> None:
    _refuse(text.count("\t") * _largest([tabsize]))


def _translate(text: str, table: Any = None) -> None:
    _refuse(len(text) * _longest(table.values()) if isinstance(table, dict) else 0)


def _format(text: str, *values: Any, **named: Any) -> None:
    _bound_format(text, "{", (*values, named))


def _percent(text: Any, *values: Any, **named: Any) -> None:
    _bound_format(str(text), "%", (*values, named))


# What a step may make at most, by the name of the method or filter; the text or list comes first.
_METHODS: dict[str, Callable[..., None]] = {
    **dict.fromkeys(("ljust", "rjust", "center", "zfill"), _pad),
    "expandtabs": _expandtabs,
    "format": _format,
    "format_map": _format,
    "join": lambda between, items=(): _join(items, between),
    "replace": _replace,
    "translate": _translate,
}
_SMALL_METHODS = frozenset(name for name in dir(str) if not name.startswith("_")) - _METHODS.keys()
_FILTERS: dict[str, Callable[..., None]] = {
    **dict.fromkeys(("batch", "center", "slice", "tojson"), _pad),
    "round": _round,
    "format": _percent,
    "indent": _indent,
    "join": _join,
    "replace": _replace,
    "wordwrap": _wordwrap,
}


def _bounded_filter(bound: Callable[..., None], function: Callable[..., Any]) -> Callable[..., Any]:
    """The filter, asking first; a generator to be joined becomes a list, which has a size."""
    first = int(hasattr(function, "jinja_pass_arg"))

    @functools.wraps(function)  # keeps the mark that tells Jinja to pass its context
    def bounded(*args: Any, **kwargs: Any) -> Any:
        before, (value, *others) = args[:first], args[first:]
        if bound is _join and not isinstance(value, str | list | tuple | dict):
            value = list(value)
        bound(value, *others, **kwargs)
        return function(*before, value, *others, **kwargs)

    return bounded
