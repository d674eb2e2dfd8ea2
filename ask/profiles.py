"""Model profiles: what is known about families of models, so that a request contains only what its model accepts.

A provider declares them in its attribute `profiles`, and users add rows in config.toml. For each fact, the first row
that matches the model's name and knows the fact applies. What no row knows is not restricted.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import cache
from typing import Annotated, Any, Literal

from ask.errors import ParameterError
from ask.records import POSITIVE_INTEGER, NamedTuple

EFFORTS = ("none", "minimal", "low", "medium", "high", "xhigh", "max")
"""The values of the option `reasoning_effort`, in ascending order; "none" turns reasoning off."""
TOKEN_LIMIT_OPTIONS = ("max_output_tokens", "max_completion_tokens", "max_tokens")
"""The names under which the user may set the token limit; the first one set applies."""
NEUTRAL_VALUES = {"temperature": 1, "top_p": 1, "n": 1, "presence_penalty": 0, "frequency_penalty": 0}
"""The values that models accept for options that they otherwise refuse, because they change nothing."""
PATTERN_TOKEN = re.compile(r"(\*|\{[^}]*\})")
VERSION_RANGE = r"\{(\d+(?:\.\d+)?)(\+|-\d+(?:\.\d+)?)?\}"
VERSION_NUMBER = re.compile(r"(\d{1,2})(?:[.-](\d{1,2})(?!\d))?(?!\d)")
"""A version in a model's name, such as 5.6, or 4-5 before a release date."""
Version = tuple[float, ...]


class ModelProfile(NamedTuple):
    """What is known about the models whose names match a pattern; None for what is not known.

    If several rows match a model, each value comes from the first one that has it; what none has is not restricted.
    Before a request, ask replaces an unsupported reasoning effort with the nearest one, and `reasoning_effort` with the
    `effort_parameters`, and reports options that the model would refuse (exit code 7).

    Attributes:
        pattern: the names. `*` matches any text, and `|` separates alternatives. A version in braces is compared by
            numbers: `{5.1}` is that version alone, `{5.1-5.4}` includes both ends, `{5.5+}` has no end. Without a
            slash, the pattern matches the part of the name after the last slash.
        source: the URL of the vendor's page.
        efforts: the values of `reasoning_effort` that the models accept; () for models without reasoning.
        effort_parameters: the request parameters to send in place of `reasoning_effort`, by its value.
        default_effort: the effort of a request that does not set one.
        reasoning_with_tools: whether the models can reason in Chat Completions requests that have tools.
        refused_options: the options that the models refuse.
        refused_when_reasoning: the options that they refuse unless the effort is "none".
        output_limit: the maximum number of tokens in an answer, including reasoning.
        context_length: the maximum number of tokens in a request and its answer.
        attachments: the MIME types of files that a message may contain.
        schema_with_tools: whether a request may contain a schema together with callable tools.
        begins_reasoning: whether the text of answers begins with reasoning that only a `</think>` ends, because the
            server neither separates it nor returns the opening tag, which is part of the prompt.
        image_bytes: the maximum size of an image in bytes, before it is encoded in Base64; a larger one is scaled down.
        image_side: the maximum width and height of an image in pixels.
        many_images_side: the same for requests with more than 20 images.
        pdf_pages: the maximum number of PDF pages in a request.
        server_tools_with_tools: whether a request may contain the service's own tools together with other tools.
        retirement_date: the date from which on the models no longer answer, as YYYY-MM-DD.
        decisions: "supported" if the models answer through the service's decisions API, too, and "only" if they answer
            in no other way.
    """

    pattern: str
    source: str | None = None
    efforts: Sequence[str] | None = None
    effort_parameters: Mapping[str, Mapping[str, Any]] | None = None
    default_effort: str | None = None
    reasoning_with_tools: bool | None = None
    refused_options: Sequence[str] | None = None
    refused_when_reasoning: Sequence[str] | None = None
    output_limit: Annotated[int, POSITIVE_INTEGER] | None = None
    context_length: Annotated[int, POSITIVE_INTEGER] | None = None
    attachments: Sequence[str] | None = None
    schema_with_tools: bool | None = None
    begins_reasoning: bool | None = None
    image_bytes: Annotated[int, POSITIVE_INTEGER] | None = None
    image_side: Annotated[int, POSITIVE_INTEGER] | None = None
    many_images_side: Annotated[int, POSITIVE_INTEGER] | None = None
    pdf_pages: Annotated[int, POSITIVE_INTEGER] | None = None
    server_tools_with_tools: bool | None = None
    retirement_date: str | None = None
    decisions: Literal["supported", "only"] | None = None

    @property
    def can_reason(self) -> bool:
        """Whether the models may be able to reason."""
        return self.efforts is None or len(self.efforts) > 0


UNKNOWN_MODEL = ModelProfile("*")


def find_profile(profiles: Iterable[ModelProfile], model: str) -> ModelProfile:
    """Return what the rows that match a model say about it; each value is from the first row that has it."""
    values: dict[str, Any] = {}
    for profile in profiles:
        if matches(profile.pattern, model):
            for name, value in profile._asdict().items():
                if value is not None:
                    values.setdefault(name, value)
    return ModelProfile(**values | {"pattern": model})


def matches(pattern: str, model: str) -> bool:
    """Check whether a pattern matches a model's name. Fine-tuned models match like the model they are made from."""
    full_name = model.removeprefix("ft:")
    name = full_name.rpartition("/")[2]
    for alternative in pattern.split("|"):
        if match_tokens(parse_pattern(alternative), full_name if "/" in alternative else name):
            return True
    return False


def match_tokens(tokens: Sequence[str | tuple[Version, Version]], name: str) -> bool | None:
    """Match a name; None if it has another form, and False if its version is out of range, which ends the search."""
    if not tokens:
        return True if not name else None
    first, *rest = tokens
    if isinstance(first, tuple):
        number = VERSION_NUMBER.match(name)
        if number is None:
            return None
        is_in_range = first[0] <= (int(number[1]), int(number[2] or 0)) <= first[1]
        return match_tokens(rest, name[number.end() :]) if is_in_range else False
    if first != "*":
        return match_tokens(rest, name[len(first) :]) if name.startswith(first) else None
    for start in range(len(name) + 1) if rest else [len(name)]:
        is_match = match_tokens(rest, name[start:])
        if is_match is not None:
            return is_match
    return None


@cache
def parse_pattern(pattern: str) -> list[str | tuple[Version, Version]]:
    """Split a pattern without alternatives into texts, wildcards, and the first and last version.

    Raises:
        ValueError: it has a version that is not valid, or more than one.
    """
    tokens: list[str | tuple[Version, Version]] = []
    for text in filter(None, PATTERN_TOKEN.split(pattern)):
        version_range = re.fullmatch(VERSION_RANGE, text)
        if version_range:
            last = version_range[2] or version_range[1]
            tokens.append((parse_version(version_range[1]), parse_version(last.removeprefix("-"))))
        elif "{" in text or "}" in text:
            raise ValueError(f"{text} is not a version such as {{5}}, {{5.1-5.4}} or {{5.5+}}")
        else:
            tokens.append(text)
    if [*map(type, tokens)].count(tuple) > 1:
        raise ValueError("only one version is possible")
    return tokens


def find_pattern_problem(pattern: str) -> str:
    """Return what is wrong with a pattern; "" if it is valid."""
    try:
        for alternative in pattern.split("|"):
            parse_pattern(alternative)
    except ValueError as error:
        return str(error)
    return ""


def parse_version(text: str) -> Version:
    """Parse "5" or "5.1"; "+" is later than all versions."""
    major, _, minor = text.partition(".")
    return (float("inf"),) if text == "+" else (int(major), int(minor or 0))


class RefusedOptionError(ParameterError):
    """A model refuses an option, or has nothing like the reasoning effort.

    Attributes:
        option: its name.
    """

    def __init__(self, option: str, message: str, hint: str) -> None:
        super().__init__(message, hint)
        self.option = option


def adapt_options(
    profile: ModelProfile,
    model: str,
    options: Mapping[str, Any],
    notify: Callable[[str], None],
    required: Collection[str] | None = None,
) -> dict[str, Any]:
    """Return the user's options in the form that a model accepts.

    A reasoning effort that the model does not have is replaced by the nearest one, and an option that it refuses is
    left out unless it is one of those `required` (None for all); `notify` reports it.

    Raises:
        ParameterError: the model refuses a required option.
    """
    remaining = dict(options)
    while True:
        try:
            return convert_options(profile, model, remaining, notify)
        except RefusedOptionError as error:
            if required is None or error.option in required:
                raise
            del remaining[error.option]
            notify(f"{error.message}; {format_left_out(error.option)}")


def format_left_out(option: str) -> str:
    """Describe an option that is left out, and where it comes from."""
    return f"leaving out {option}, which config.toml or the template sets"


def convert_options(
    profile: ModelProfile, model: str, options: Mapping[str, Any], notify: Callable[[str], None]
) -> dict[str, Any]:
    """Return options in the form that a model accepts.

    Raises:
        RefusedOptionError: it refuses one of them.
    """
    adapted = dict(options)
    effort = choose_effort(profile, model, options["reasoning_effort"]) if "reasoning_effort" in options else None
    if effort is None:
        adapted.pop("reasoning_effort", None)
    elif effort != options["reasoning_effort"]:
        notify(f"{model} has no reasoning effort {options['reasoning_effort']!r}; using {effort!r}")
        adapted["reasoning_effort"] = effort
    adapted = select_accepted_options(profile, model, adapted, effort or profile.default_effort)
    parameters = (profile.effort_parameters or {}).get(effort) if isinstance(effort, str) else None
    if parameters is None:
        return adapted
    del adapted["reasoning_effort"]
    return merge_options(parameters, adapted)


def choose_effort(profile: ModelProfile, model: str, effort: Any) -> Any:
    """Return the nearest effort that a model has, the higher of two; None if reasoning is off anyway.

    Raises:
        RefusedOptionError: there is none.
    """
    if profile.efforts is None or effort in profile.efforts:
        return effort
    if not profile.efforts:
        if effort == "none":
            return None
        hint = "leave out the reasoning effort, or use a reasoning model"
        raise RefusedOptionError("reasoning_effort", f"{model} does not support reasoning", hint)
    known = [each for each in profile.efforts if each in EFFORTS]
    if effort not in EFFORTS or not known:
        hint = f"it accepts {', '.join(profile.efforts)}"
        raise RefusedOptionError("reasoning_effort", f"{model} has no reasoning effort {effort!r}", hint)
    rank = EFFORTS.index(effort)
    return min(known, key=lambda each: (abs(EFFORTS.index(each) - rank), -EFFORTS.index(each)))


def select_accepted_options(
    profile: ModelProfile, model: str, options: Mapping[str, Any], effort: str | None
) -> dict[str, Any]:
    """Return the options that a model accepts with this effort, without those refused although they change nothing.

    Raises:
        RefusedOptionError: the model refuses one of the others.
    """
    # The vendors' own parameters may turn reasoning off, too.
    is_reasoning = profile.can_reason and effort != "none" and not {"reasoning", "thinking"} & options.keys()
    accepted = dict(options)
    for name, value in options.items():
        is_refused = name in (profile.refused_options or ())
        is_refused_when_reasoning = name in (profile.refused_when_reasoning or ())
        if (is_refused or is_refused_when_reasoning) and value == NEUTRAL_VALUES.get(name, ...):
            del accepted[name]
        elif is_refused:
            raise RefusedOptionError(name, f"{model} does not accept {name}", f"leave out {name}, or use another model")
        elif is_refused_when_reasoning and is_reasoning:
            can_turn_off = "none" in (profile.efforts or ())
            hint = f"leave out {name}" + (", or add --effort none" if can_turn_off else "")
            raise RefusedOptionError(name, f"{model} does not accept {name} when it reasons", hint)
    return accepted


def merge_options(defaults: Mapping[str, Any], options: Mapping[str, Any]) -> dict[str, Any]:
    """Add default parameters to the user's options, which win. Two tables are merged."""
    merged = {
        name: {**value, **options[name]}
        for name, value in defaults.items()
        if isinstance(value, Mapping) and isinstance(options.get(name), Mapping)
    }
    return {**defaults, **options, **merged}
