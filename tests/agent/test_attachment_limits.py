"""Limits of services for images and PDFs: what is scaled down, refused before sending, and left out later."""

from __future__ import annotations

import base64
import time
import zlib
from io import BytesIO
from typing import Any

import pytest
from PIL import Image

from ask import Attachment, Message, ModelProfile
from ask.client.attachment_limits import fit_attachments
from ask.client.image_scaling import read_image_size, scale_image
from ask.client.pdf_pages import count_pdf_pages
from tests import wire
from tests.missing_packages import make_command_without
from tests.model_server import ModelServer
from tests.program import Ask, Home, run
from tests.provider_wires import SERVICES, build_service_variables
from tests.sample_files import pdf

ANTHROPIC = SERVICES["anthropic"]
COMMAND = ("--no-tools", "-p", "anthropic", "-m", "claude-sonnet-5-5")


@pytest.fixture
def ask(home: Home, server: ModelServer) -> Ask:
    return Ask({**home.env, **build_service_variables(server.base_url)}, home.work)


def make_image(kind: str = "PNG", size: tuple[int, int] = (9_000, 30), mode: str = "RGB", **options: Any) -> bytes:
    output = BytesIO()
    Image.new(mode, size, options.pop("color", 0)).save(output, kind, **options)
    return output.getvalue()


def find_images(body: Any) -> list[Image.Image]:
    """Return the images in a request to Anthropic."""
    blocks = [block for message in body["messages"] for block in message["content"]]
    data = [block["source"]["data"] for block in blocks if block["type"] == "image"]
    return [Image.open(BytesIO(base64.b64decode(each))) for each in data]


@pytest.mark.slow
def test_wide_image_is_scaled_down(ask: Ask, server: ModelServer) -> None:
    (ask.cwd / "wide.png").write_bytes(make_image("PNG", mode="RGBA", color=(255, 0, 0, 128)))
    server.reply(ANTHROPIC.says("Red."), ANTHROPIC.says("Still."))
    result = ask(*COMMAND, "-f", "wide.png", "what?")
    assert (result.text, result.code, result.stderr.count("\n")) == ("Red.\n", 0, 1)
    assert all(part in result.stderr for part in ("wide.png", "9,000 x 30", "8,000 x 27", "8,000 pixels a side"))
    (image,) = find_images(server.requests[-1].json)
    assert (image.format, image.size, image.getpixel((0, 0))) == ("PNG", (8_000, 27), (255, 0, 0, 128))
    result = ask(*COMMAND, "-c", "still?")
    assert result.stderr == ""
    assert [each.size for each in find_images(server.requests[-1].json)] == [(8_000, 27)]
    assert base64.b64encode(make_image("PNG", mode="RGBA", color=(255, 0, 0, 128))).decode() in (
        ask("history", "export", "--format", "json").text
    )


def test_many_images_have_a_lower_limit(ask: Ask, server: ModelServer) -> None:
    names = [f"{number}.jpg" for number in range(21)]
    for name in names:
        (ask.cwd / name).write_bytes(make_image("JPEG", (2_100, 10)))
    server.reply(ANTHROPIC.says("Black."), ANTHROPIC.says("Black."))
    options = [option for name in names for option in ("-f", name)]
    assert ask(*COMMAND, *options[:40], "what?").stderr == ""
    assert {image.width for image in find_images(server.requests[-1].json)} == {2_100}
    assert ask(*COMMAND, *options, "what?").code == 0
    assert {image.width for image in find_images(server.requests[-1].json)} == {2_000}


@pytest.mark.slow_after_first
@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (make_image("GIF", save_all=True, append_images=[Image.new("RGB", (9_000, 30), 255)]), "animated"),
        (make_image()[:200], "damaged"),
        (b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR" + b"\0\1\x80\0" * 2 + b"\x08\2\0\0\0" + bytes(99), "damaged"),
    ],
    ids=["animated", "truncated", "bomb"],
)
def test_image_that_cannot_be_scaled_is_refused(data: bytes, reason: str, ask: Ask, server: ModelServer) -> None:
    (ask.cwd / "bad").write_bytes(data)
    result = ask(*COMMAND, "-f", "bad", "what?")
    assert (result.code, server.requests, result.stderr.count("\n")) == (7, [], 1)
    assert all(word in result.stderr for word in ("bad", "8,000 pixels", reason))


@pytest.mark.slow
def test_without_pillow_the_error_names_it(home: Home, server: ModelServer) -> None:
    (home.work / "wide.png").write_bytes(make_image())
    env = {**home.env, **build_service_variables(server.base_url)}
    command = make_command_without("PIL", home)
    result = run([*command, *COMMAND, "-f", "wide.png", "what?"], env=env, cwd=home.work)
    assert (result.code, server.requests) == (7, [])
    assert all(word in result.stderr for word in ("8,000 pixels a side", "Pillow", "[files]"))


@pytest.mark.slow
def test_bytes_orientation_and_kind_are_kept() -> None:
    noise = Image.effect_noise((600, 300), 100)
    exif = noise.getexif()
    exif[0x0112] = 6  # turned by a quarter
    output = BytesIO()
    noise.save(output, "JPEG", quality=95, exif=exif)
    scaled = Image.open(BytesIO(scale_image(output.getvalue(), 400, 20_000).data))
    assert scaled.format == "JPEG"
    assert scaled.height > scaled.width  # as it is shown
    assert scaled.getexif().get(0x0112) is None
    camera = make_image("MPO", (900, 10), save_all=True, append_images=[Image.new("RGB", (9, 9))])
    scaled = Image.open(BytesIO(scale_image(camera, 90, 0).data))
    assert (scaled.format, scaled.size) == ("JPEG", (90, 1))  # with the preview, it would be called animated
    palette = make_image("GIF", (900, 10), "P")
    assert Image.open(BytesIO(scale_image(palette, 90, 0).data)).size == (90, 1)


@pytest.mark.parametrize("options", [{}, {"progressive": True}, {"exif": b"Exif\0\0" + bytes(900)}])
def test_size_of_a_jpeg(options: Any) -> None:
    assert read_image_size(make_image("JPEG", (70, 50), **options)) == (70, 50)


@pytest.mark.parametrize("options", [{"lossless": True}, {"lossless": False}, {"mode": "RGBA", "lossless": False}])
def test_size_of_a_webp(options: Any) -> None:
    assert read_image_size(make_image("WEBP", (70, 50), **options)) == (70, 50)
    assert read_image_size(make_image("GIF", (70, 50))) == read_image_size(make_image("PNG", (70, 50))) == (70, 50)


def test_pdf_with_too_many_pages_is_refused(ask: Ask, server: ModelServer) -> None:
    (ask.cwd / "book.pdf").write_bytes(pdf(601))
    result = ask(*COMMAND, "-f", "book.pdf", "what?")
    assert (result.code, server.requests) == (7, [])
    assert all(word in result.stderr for word in ("book.pdf", "600", "601"))


def test_pdfs_of_earlier_messages_are_left_out() -> None:
    part = Attachment("part.pdf", "application/pdf", pdf(400))
    first, last = Message("user", "a", attachments=(part,)), Message("user", "c", attachments=(part,))
    profile = ModelProfile("ant-1", pdf_pages=600)
    fitted = fit_attachments([first, Message("assistant", "b"), last], profile, pytest.fail)
    assert ([len(message.attachments) for message in fitted], fitted[2]) == ([0, 0, 1], last)
    assert all(word in fitted[0].content for word in ("part.pdf", "400", "600"))


@pytest.mark.slow
def test_pages_in_compressed_objects_are_counted() -> None:
    pages = b"<</Type/Pages/Kids[1 0 R 2 0 R]/Count 2>>" + b"<</Type/Page/Parent 3 0 R>>" * 2
    packed = zlib.compress(pages)
    data = b"%PDF-1.5\n1 0 obj<</Type/ObjStm/N 3/Filter/FlateDecode>>stream\n" + packed + b"\nendstream"
    assert count_pdf_pages(data) == 2
    assert count_pdf_pages(data + b"<</Type /Page>>" * 5) == 2  # of an earlier version of the file
    assert count_pdf_pages(data.replace(packed, zlib.compress(bytes(100_000_000)))) is None
    assert count_pdf_pages(data + b"trailer<</Encrypt 9 0 R>>") is None


@pytest.mark.parametrize("part", [b"/Type/ObjStm stream\nx", b"/Type/ObjStm ", b"/Type/Pages ", b"/Count 1/Type/Page "])
def test_pages_of_a_hostile_pdf_are_counted_quickly(part: bytes) -> None:
    start = time.process_time()
    count_pdf_pages(b"%PDF-1.4\n" + part * (5_000_000 // len(part)))
    assert time.process_time() - start < 5.0


def test_limits_can_be_configured(ask: Ask, server: ModelServer, home: Home) -> None:
    rows = "[[providers.openrouter.models]]\npattern = '*'\nimage_side = 100\n"
    home.configure(rows)
    (ask.cwd / "wide.png").write_bytes(make_image())
    server.reply(wire.says("Black."))
    assert ask("--no-tools", "-p", "openrouter", "-m", "a/b", "-f", "wide.png", "what?").code == 0
    url = server.requests[-1].json["messages"][1]["content"][1]["image_url"]["url"]
    assert Image.open(BytesIO(base64.b64decode(url.partition(",")[2]))).size == (100, 1)
