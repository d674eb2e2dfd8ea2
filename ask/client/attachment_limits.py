"""What a service does not accept: documents become text, large images are scaled down, and the rest is left out.

The saved conversation keeps the original files, because another model may have other limits.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from itertools import chain

from ask.attachments import PDF_TYPE, is_document, move_answer_files, move_result_files, replace_by_text, replace_file
from ask.client.image_scaling import read_image_size, scale_image
from ask.client.pdf_pages import count_pdf_pages
from ask.errors import PluginError
from ask.messages import Attachment, Message
from ask.plugin_api.loaded_provider import LoadedProvider, discard_notice
from ask.profiles import ModelProfile
from ask.text import format_one_line, format_size

MANY_IMAGES = 20
"""With more images in a request, `ModelProfile.many_images_side` applies.

https://platform.claude.com/docs/en/build-with-claude/vision
"""


def adapt_attachments(
    messages: Sequence[Message], provider: LoadedProvider, model: str, notify: Callable[[str], None]
) -> list[Message]:
    """Return messages with their files where the service accepts them, and without what it does not accept."""

    def keep_in_place(is_supported: Callable[[str, str], bool], media_type: str) -> bool:
        try:
            return is_supported(model, media_type)
        except PluginError as error:  # a file of which the hook does not know is sent after the message
            notify(f"{error.summary}; sending files after the results")
            return False

    if any(message.role in ("tool", "assistant") and message.attachments for message in messages):
        messages = move_result_files(messages, partial(keep_in_place, provider.supports_result_attachment))
        messages = move_answer_files(messages, partial(keep_in_place, provider.supports_answer_attachment))
    converted = _convert_documents(messages, partial(provider.supports_attachment, model))
    return fit_attachments(converted, provider.find_profile(model), notify)


def _convert_documents(messages: Sequence[Message], is_supported: Callable[[str], bool]) -> list[Message]:
    """Return messages with the text of documents that the model does not accept, or a note if they have none."""
    converted = [*messages]
    for position, message in enumerate(messages):
        for file in message.attachments:
            if not is_document(file.media_type) or is_supported(file.media_type):
                continue
            from ask.client.document_text import convert_document

            text, problem = convert_document(file.data)
            if problem:
                converted[position] = replace_file(converted[position], file, None, f"left out: {problem}")
            else:
                converted[position] = replace_by_text(converted[position], file, text)
    return converted


def fit_attachments(messages: Sequence[Message], profile: ModelProfile, notify: Callable[[str], None]) -> list[Message]:
    """Return messages whose images and PDFs are within a model's limits.

    The oldest PDFs are left out if there are too many pages. `notify` is called with a line for the user for each image
    that is scaled down or left out.
    """
    fitted = [*messages]
    last_answer = max(
        (position for position, message in enumerate(messages) if message.role == "assistant"), default=-1
    )
    max_side = _find_max_side(list(chain.from_iterable(message.attachments for message in messages)), profile)
    page_count = 0
    for position in reversed(range(len(fitted))):
        report = notify if position > last_answer else discard_notice  # earlier files were reported before
        for file in fitted[position].attachments:
            problem = ""
            if file.media_type == PDF_TYPE:
                pages = count_pdf_pages(file.data) or 0 if profile.pdf_pages else 0
                page_count += pages
                if profile.pdf_pages and page_count > profile.pdf_pages:
                    page_count -= pages
                    problem = f"with its {pages:,} pages there are more than {profile.pdf_pages:,}"
            elif limit := _find_exceeded_limit(file, max_side, profile.image_bytes):
                scaled = scale_image(file.data, max_side or 0, profile.image_bytes or 0)
                name = format_one_line(file.name)
                if scaled.data:
                    sizes = " to ".join(map(_describe_size, (file.data, scaled.data)))
                    report(f"scaled {name} down from {sizes}, because {profile.pattern} accepts {limit}")
                    smaller = file._replace(data=scaled.data)
                    fitted[position] = replace_file(fitted[position], file, smaller)
                    continue
                problem = f"{profile.pattern} accepts {limit}, and {scaled.problem}"
                report(f"left out {name}: {problem}")
            if problem:
                fitted[position] = replace_file(fitted[position], file, None, f"left out: {problem}")
    return fitted


def find_limit_problem(files: Sequence[Attachment], profile: ModelProfile) -> tuple[Attachment, str] | None:
    """Return the first file of a question that cannot be sent, and why; None if all can be."""
    max_side = _find_max_side(files, profile)
    page_count = 0
    for file in files:
        if file.media_type == PDF_TYPE and profile.pdf_pages:
            page_count += count_pdf_pages(file.data) or 0
            if page_count > profile.pdf_pages:
                return file, f"{profile.pdf_pages:,} PDF pages, not {page_count:,}"
        elif limit := _find_exceeded_limit(file, max_side, profile.image_bytes):
            scaled = scale_image(file.data, max_side or 0, profile.image_bytes or 0)
            if not scaled.data:
                return file, f"{limit}, and {scaled.problem}"
    return None


def _find_max_side(files: Sequence[Attachment], profile: ModelProfile) -> int | None:
    has_many = sum(file.media_type.startswith("image/") for file in files) > MANY_IMAGES
    return profile.many_images_side if has_many and profile.many_images_side else profile.image_side


def _find_exceeded_limit(file: Attachment, max_side: int | None, max_bytes: int | None) -> str:
    """Return the limit that an image exceeds; "" for none, and for other files."""
    if not file.media_type.startswith("image/"):
        return ""
    if max_bytes and len(file.data) > max_bytes:
        return f"images of at most {format_size(max_bytes)}"
    size = read_image_size(file.data) if max_side else None
    return f"at most {max_side:,} pixels a side" if max_side and size and max(size) > max_side else ""


def _describe_size(data: bytes) -> str:
    size = read_image_size(data)
    pixels = f"{size[0]:,} x {size[1]:,} pixels, " if size else ""
    return f"{pixels}{format_size(len(data))}"
