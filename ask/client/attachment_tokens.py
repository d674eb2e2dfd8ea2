"""How many tokens a model counts for an attachment, estimated from its type and size."""

from __future__ import annotations

from collections.abc import Sequence

from ask.attachments import MEDIA_TYPES, UNKNOWN_TYPE
from ask.client.pdf_pages import count_pdf_pages
from ask.messages import Attachment

IMAGE_TOKENS = 1_600
PAGE_TOKENS = 2_000
"""Tokens of a PDF page, sent as both text and image."""
BYTES_PER_PAGE = 50_000
"""Used for a PDF whose pages cannot be counted because its objects are compressed."""
BYTES_PER_AUDIO_TOKEN = {"audio/wav": 5_000, "audio/aiff": 5_000, "audio/flac": 2_500}
BYTES_PER_COMPRESSED_AUDIO_TOKEN = 500
"""About 32 tokens per second of audio compressed to 16 kB per second."""
BYTES_PER_DOCUMENT_TOKEN = 8
"""Their parts are compressed, and contain images and formats, too."""
BYTES_PER_VIDEO_TOKEN = 800
"""About 300 tokens per second of video compressed to 250 kB per second."""


def estimate_attachment_tokens(attachments: Sequence[Attachment]) -> int:
    """Estimate how many tokens a model counts for attachments."""
    tokens = 0
    for attachment in attachments:
        group, size = MEDIA_TYPES.get(attachment.media_type, UNKNOWN_TYPE).group, len(attachment.data)
        if group == "image":
            tokens += IMAGE_TOKENS
        elif group == "document":
            tokens += size // BYTES_PER_DOCUMENT_TOKEN + 1
        elif group == "video":
            tokens += size // BYTES_PER_VIDEO_TOKEN + 1
        elif group == "audio":
            tokens += size // BYTES_PER_AUDIO_TOKEN.get(attachment.media_type, BYTES_PER_COMPRESSED_AUDIO_TOKEN) + 1
        else:
            pages = count_pdf_pages(attachment.data) or size // BYTES_PER_PAGE + 1
            tokens += pages * PAGE_TOKENS
    return tokens
