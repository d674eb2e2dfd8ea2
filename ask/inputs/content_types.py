"""What the content of a file or of stdin becomes, by its type: text, an attachment, or an error."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import PurePath

from ask.attachments import MAX_FILE_BYTES, MEDIA_TYPES, OFFICE_MEDIA_TYPE, detect_media_type
from ask.errors import FileError
from ask.inputs.prompt_inputs import PromptInputs
from ask.inputs.stdin_and_files import decode_text
from ask.messages import Attachment
from ask.text import format_one_line, format_size

SUPPORTED_CONTENT = "text, an image, a PDF, audio or a video"


def parse_content(
    name: str,
    data: bytes,
    text_limit: int | None = None,
    *,
    keep_location: bool = False,
    accepts: Callable[[str], bool] = lambda _: False,
) -> PromptInputs:
    """Convert file content to a text or an attachment, by its media type.

    Args:
        name: the name of the file.
        data: its content.
        text_limit: the maximum size of a text in bytes; None for any size.
        keep_location: whether a photo keeps the position where it was taken.
        accepts: checks whether documents of a MIME type are sent as they are; others are converted to text.

    Raises:
        FileError: it is too long, or of a type that no provider accepts, or a document that cannot be converted.
    """
    media_type = detect_media_type(data)
    if media_type == OFFICE_MEDIA_TYPE:
        from ask.client.document_text import convert_document, has_macros, identify_document

        document_type = identify_document(data)
        if document_type and (has_macros(data) or not accepts(document_type)):
            text, problem = convert_document(data)
            if problem:
                raise FileError(f"cannot read {name}", problem)
            return PromptInputs(texts=((name, text),))
        media_type = document_type or media_type
    known_type = MEDIA_TYPES.get(media_type)
    if known_type and not known_type.group:
        article = "an" if known_type.title[0] in "AEIOU" else "a"
        raise FileError(f"no provider accepts {name}, which is {article} {known_type.title}", known_type.advice)
    limit = MAX_FILE_BYTES[known_type.group] if known_type else text_limit
    if limit is not None and len(data) > limit:
        raise FileError(f"{name} is larger than {format_size(limit)}", "attach a smaller file, or a part of it")
    if known_type is None:
        notes: list[str] = []
        text = decode_text(data, name, notes.append, SUPPORTED_CONTENT)
        return PromptInputs(texts=((name, text),), encoding_notes=tuple(notes))
    title = format_one_line(PurePath(name).name)
    cleaned_data = data
    if known_type.group in ("image", "video") and not keep_location:
        from ask.inputs.photo_locations import remove_location

        cleaned_data = remove_location(data)
    attachment = Attachment(title, media_type, cleaned_data)
    return PromptInputs(attachments=(attachment,), cleaned_photos=() if cleaned_data is data else (title,))
