"""OpenRouter's Image API, for models that only generate images, which most refuse to do in Chat Completions.

https://github.com/rbb-dev/Open-WebUI-OpenRouter-pipe/issues/61
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ask import ChatRequest
from ask.parsing import read_dict, read_list, read_str
from ask.profiles import matches

IMAGES_PAGE = "https://openrouter.ai/docs/guides/overview/multimodal/image-generation"
IMAGES_PATH = "/images"
IMAGE_MODELS = (
    "*black-forest-labs/*|*krea/*|*quiver/*|*recraft/*|*sourceful/*"
    "|*/gpt-image*|*/grok-imagine*|*/mai-image*|*/muse-image*|*/seedream*"
)
"""Models that only generate images. They are not in the models list that ask fetches, which has models for text."""
IMAGES_ONLY = ["image"]


def uses_image_api(request: ChatRequest) -> bool:
    """Check whether only images are wanted, because of the model or the option `modalities`."""
    modalities = request.options.get("modalities")
    return modalities == IMAGES_ONLY if modalities else is_image_model(request.model)


def is_image_model(model: str) -> bool:
    return matches(IMAGE_MODELS, model)


def build_image_body(request: ChatRequest) -> dict[str, Any]:
    """Return the body of a request for images: the last message and its images, because there are no conversations."""
    last = next((message for message in reversed(request.messages) if message.role == "user"), None)
    body: dict[str, Any] = {"model": request.model, "prompt": last.content if last else ""}
    images = [file for file in last.attachments if file.media_type.startswith("image/")] if last else []
    if images:
        body["input_references"] = [{"type": "image_url", "image_url": {"url": image.data_url}} for image in images]
    return body | {name: value for name, value in request.options.items() if name not in ("modalities", "reasoning")}


def convert_image_response(response: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a response of the Image API in the format of Chat Completions, and any other unchanged."""
    images = [read_dict(image) for image in read_list(response.get("data"))]
    if response.get("choices") or not images:
        return response
    urls = [
        f"data:{read_str(image.get('media_type')) or 'image/png'};base64,{read_str(image.get('b64_json'))}"
        for image in images
    ]
    message = {"role": "assistant", "content": None, "images": [{"image_url": {"url": url}} for url in urls]}
    return {**response, "choices": [{"index": 0, "finish_reason": "stop", "message": message}]}
