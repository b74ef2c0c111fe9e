"""Every kind of file that a folder of images may hold, from a picture whose pixels are known."""

import io
import resource
import struct
import time
import zlib
from pathlib import Path

import numpy as np
import pytest
from _internals import MOST_PIXELS, DataError, decode
from PIL import Image, features

RED, GREEN, BLUE, WHITE = (255, 0, 0), (0, 255, 0), (0, 0, 255), (255, 255, 255)


def quarters(side: int = 32) -> Image.Image:
    """Red, green, blue and white quarters: any turn, flip or swap of channels shows."""
    pixels = np.zeros((side, side * 2, 3), np.uint8)
    half = side // 2
    pixels[:half, :side], pixels[:half, side:] = RED, GREEN
    pixels[half:, :side], pixels[half:, side:] = BLUE, WHITE
    return Image.fromarray(pixels)


def noise(mode: str = "RGB", side: int = 64) -> Image.Image:
    """A picture that does not compress, so that a file cut anywhere lacks pixels."""
    pixels = np.random.default_rng(0).integers(0, 256, (side, side, 3), np.uint8)
    return Image.fromarray(pixels).convert(mode)


def encoded(image: Image.Image, form: str, **options: object) -> bytes:
    file = io.BytesIO()
    image.save(file, form, **options)
    return file.getvalue()


def corners(image: Image.Image) -> list[list[int]]:
    """Top left, top right, bottom left, bottom right, from the middle of each quarter."""
    x, y = image.width // 4, image.height // 4
    places = [(x, y), (3 * x, y), (x, 3 * y), (3 * x, 3 * y)]
    return [list(image.getpixel(place)) for place in places]


def assert_close(image: Image.Image, wanted: list[tuple[int, ...]], by: int) -> None:
    assert image.mode == "RGB"
    assert np.abs(np.array(corners(image)) - np.array(wanted)).max() <= by


# --- formats and modes ------------------------------------------------------------------------

LOSSLESS = {
    "png": ("PNG", {}),
    "bmp": ("BMP", {}),
    "tiff": ("TIFF", {}),
    "tiff deflated": ("TIFF", {"compression": "tiff_deflate"}),
    "ppm": ("PPM", {}),
    "webp lossless": ("WEBP", {"lossless": True}),
}
LOSSY = {
    "jpeg": ("JPEG", {"quality": 95}),
    "jpeg progressive": ("JPEG", {"quality": 95, "progressive": True}),
    "webp": ("WEBP", {"quality": 95}),
} | ({"avif": ("AVIF", {"quality": 95})} if features.check("avif") else {})
LOSSLESS_OPTIONS: dict[str, dict[str, object]] = {"PNG": {}, "TIFF": {}, "WEBP": {"lossless": True}}


@pytest.mark.parametrize("name", LOSSLESS)
def test_a_lossless_format_gives_its_pixels(name: str) -> None:
    form, options = LOSSLESS[name]
    image = decode(encoded(quarters(), form, **options), "picture")
    assert image.mode == "RGB"
    assert np.array_equal(np.asarray(image), np.asarray(quarters()))


@pytest.mark.parametrize("name", LOSSY)
def test_a_lossy_format_gives_nearly_its_pixels(name: str) -> None:
    form, options = LOSSY[name]
    image = decode(encoded(quarters(), form, **options), "picture")
    assert image.size == (64, 32)
    assert_close(image, [RED, GREEN, BLUE, WHITE], by=8)


@pytest.mark.parametrize("form", ["PNG", "TIFF", "WEBP"])
def test_opaque_rgba_is_its_rgb(form: str) -> None:
    image = decode(encoded(quarters().convert("RGBA"), form, **LOSSLESS_OPTIONS[form]), "picture")
    assert np.array_equal(np.asarray(image), np.asarray(quarters()))


@pytest.mark.parametrize("form", ["PNG", "GIF"])
def test_a_palette_is_looked_up(form: str) -> None:
    image = decode(encoded(quarters().convert("P", palette=Image.Palette.ADAPTIVE), form), "p")
    assert_close(image, [RED, GREEN, BLUE, WHITE], by=0)


@pytest.mark.parametrize("transparent", [0, b"\x00\x80\xff\xff"], ids=["one index", "a table"])
def test_a_palette_with_transparency_keeps_its_colours(transparent: object) -> None:
    """Pillow warns about a table of transparencies; here a warning is an error."""
    palette = quarters().convert("P", palette=Image.Palette.ADAPTIVE)
    image = decode(encoded(palette, "PNG", transparency=transparent), "picture")
    assert_close(image, [RED, GREEN, BLUE, WHITE], by=0)


@pytest.mark.parametrize("mode", ["1", "L", "LA"])
def test_grey_fills_three_channels(mode: str) -> None:
    ramp = Image.fromarray(np.tile(np.array([0, 255], np.uint8).repeat(8), (16, 1))).convert(mode)
    image = decode(encoded(ramp, "PNG"), "picture")
    assert_close(image, [(0, 0, 0), WHITE, (0, 0, 0), WHITE], by=0)


@pytest.mark.parametrize("form", ["PNG", "TIFF"])
def test_sixteen_bit_grey_is_scaled_to_eight(form: str) -> None:
    levels = np.array([[0, 257], [257 * 100, 65_535]], np.uint16).repeat(8, 0).repeat(8, 1)
    image = decode(encoded(Image.fromarray(levels), form), "picture")
    assert_close(image, [(0,) * 3, (1,) * 3, (100,) * 3, WHITE], by=0)


def test_thirty_two_bit_grey_within_sixteen_is_scaled() -> None:
    levels = np.array([[0, 65_535]], np.int32).repeat(8, 0).repeat(8, 1)
    image = decode(encoded(Image.fromarray(levels), "TIFF"), "picture")
    assert_close(image, [(0,) * 3, WHITE, (0,) * 3, WHITE], by=0)


@pytest.mark.parametrize("level", [-1, 65_536])
def test_grey_beyond_sixteen_bits_is_refused(level: int) -> None:
    data = encoded(Image.fromarray(np.full((8, 8), level, np.int32)), "TIFF")
    with pytest.raises(DataError, match=r"^deep\.tif: grey levels outside 0–65535; convert it"):
        decode(data, Path("deep.tif"))


def test_floating_point_is_refused() -> None:
    data = encoded(Image.fromarray(np.full((8, 8), 0.5, np.float32)), "TIFF")
    with pytest.raises(DataError, match=r"^f\.tif: grey levels in floating point; convert it"):
        decode(data, "f.tif")


def test_a_cmyk_jpeg_is_converted() -> None:
    data = encoded(quarters().convert("CMYK"), "JPEG", quality=95, subsampling=0)
    with Image.open(io.BytesIO(data)) as stored:
        assert stored.mode == "CMYK"
    assert_close(decode(data, "picture"), [RED, GREEN, BLUE, WHITE], by=8)


# The corners after undoing each EXIF orientation, read off the standard's table: where the stored
# top left (red), top right (green), bottom left (blue) and bottom right (white) end.
UPRIGHT = {
    1: [RED, GREEN, BLUE, WHITE],
    2: [GREEN, RED, WHITE, BLUE],
    3: [WHITE, BLUE, GREEN, RED],
    4: [BLUE, WHITE, RED, GREEN],
    5: [RED, BLUE, GREEN, WHITE],
    6: [BLUE, RED, WHITE, GREEN],
    7: [WHITE, GREEN, BLUE, RED],
    8: [GREEN, WHITE, RED, BLUE],
}


@pytest.mark.parametrize("orientation", UPRIGHT)
def test_a_turned_jpeg_is_set_upright(orientation: int) -> None:
    exif = Image.Exif()
    exif[0x0112] = orientation
    image = decode(encoded(quarters(), "JPEG", quality=95, exif=exif), "picture")
    assert image.size == ((64, 32) if orientation < 5 else (32, 64))
    assert_close(image, UPRIGHT[orientation], by=8)


# Pillow warns of damaged EXIF data; the pixels are sound, and so is the picture.
@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize(
    "exif",
    [b"Exif\0\0", b"Exif\0\0II*\0", b"Exif\0\0" + bytes(range(200, 250)), "cut", "no such turn"],
)
def test_damaged_exif_data_does_not_cost_the_picture(exif: object) -> None:
    if isinstance(exif, str):
        values = Image.Exif()
        values[0x0112] = 6 if exif == "cut" else 9
        exif = values.tobytes()[: -8 if exif == "cut" else None]
    image = decode(encoded(quarters(), "JPEG", quality=95, exif=exif), "picture")
    assert_close(image, UPRIGHT[1], by=8)


@pytest.mark.parametrize("form", ["GIF", "WEBP", "PNG", "TIFF"])
def test_an_animation_gives_its_first_frame(form: str) -> None:
    frames = [Image.new("RGB", (16, 16), colour) for colour in (RED, GREEN, BLUE)]
    options = LOSSLESS_OPTIONS.get(form, {})
    data = encoded(frames[0], form, save_all=True, append_images=frames[1:], **options)
    with Image.open(io.BytesIO(data)) as stored:
        assert stored.n_frames == 3
    assert_close(decode(data, "picture"), [RED] * 4, by=0)


@pytest.mark.parametrize("form", ["PNG", "GIF", "BMP", "WEBP"])
def test_the_content_decides_not_the_name(form: str) -> None:
    image = decode(encoded(quarters(), form), Path("photo.jpg"))
    assert image.size == (64, 32)
    assert_close(image, [RED, GREEN, BLUE, WHITE], by=60)


# --- what is no image -------------------------------------------------------------------------

NO_IMAGES = {
    "empty": b"",
    "text": b"see the other folder\n",
    "a web page": b"<!DOCTYPE html><html><body>404</body></html>",
    "zeros": bytes(5_000),
    "a pointer of Git LFS": b"version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 9\n",
    "the head of a JPEG": encoded(quarters(), "JPEG")[:20],
    "the signature of PNG": b"\x89PNG\r\n\x1a\n",
    "a PNG of random bytes": b"\x89PNG\r\n\x1a\n" + np.random.default_rng(1).bytes(4_000),
    "a zip": b"PK\x03\x04" + bytes(100),
    "random bytes": np.random.default_rng(2).bytes(4_000),
}


@pytest.mark.parametrize("name", NO_IMAGES)
def test_what_is_no_image_is_one_line(name: str) -> None:
    with pytest.raises(DataError) as caught:
        decode(NO_IMAGES[name], Path("a/b.jpg"))
    message = str(caught.value)
    assert message.startswith("a/b.jpg: not a readable image (")
    assert "\n" not in message
    assert "BytesIO" not in message


# Pillow hands PostScript to a program of its own (Ghostscript): data must never be executed.
def test_a_program_in_postscript_is_of_no_known_format() -> None:
    data = b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n%%EndComments\nshowpage\n"
    with pytest.raises(DataError, match="unknown format"):
        decode(data, "photo.jpg")


CUT = {
    "png": ("PNG", {}),
    "jpeg": ("JPEG", {}),
    "jpeg progressive": ("JPEG", {"progressive": True}),
    "gif": ("GIF", {}),
    "bmp": ("BMP", {}),
    "tiff": ("TIFF", {}),
    "tiff deflated": ("TIFF", {"compression": "tiff_deflate"}),
    "webp": ("WEBP", {}),
    "ppm": ("PPM", {}),
} | ({"avif": ("AVIF", {})} if features.check("avif") else {})


@pytest.mark.parametrize("name", CUT)
def test_a_file_cut_anywhere_is_never_another_picture(name: str) -> None:
    """Where only a trailer is cut, which holds no pixels, the whole picture may be accepted."""
    form, options = CUT[name]
    data = encoded(noise("P" if form == "GIF" else "RGB"), form, **options)
    whole = np.asarray(decode(data, "whole"))
    places = np.random.default_rng(3).integers(0, len(data), 20)
    refused = 0
    for place in [*places, len(data) - 1]:
        try:
            image = decode(data[:place], "cut")
        except DataError:
            refused += 1
        else:
            assert np.array_equal(np.asarray(image), whole), f"cut at {place} of {len(data)}"
    assert refused >= 18


# --- bombs ------------------------------------------------------------------------------------


def png_declaring(width: int, height: int) -> bytes:
    """A PNG of a few bytes, one bit a pixel, whose header promises much."""

    def chunk(kind: bytes, body: bytes) -> bytes:
        return (
            struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))
        )

    header = struct.pack(">IIBBBBB", width, height, 1, 0, 0, 0, 0)
    return (
        b"\x89PNG\r\n\x1a\n"
        + chunk(b"IHDR", header)
        + chunk(b"IDAT", zlib.compress(bytes(100)))
        + chunk(b"IEND", b"")
    )


@pytest.mark.parametrize(
    ("width", "height"),
    [(60_000, 60_000), (2**31 - 1, 2**31 - 1), (MOST_PIXELS + 1, 1), (20_000, 8_000)],
)
# Pillow warns of some of these sizes before we refuse them.
@pytest.mark.filterwarnings("ignore::PIL.Image.DecompressionBombWarning")
def test_a_bomb_is_refused_before_it_goes_off(width: int, height: int) -> None:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    start = time.monotonic()
    with pytest.raises(DataError, match=r"^bomb\.png: [^\n]*pixels"):
        decode(png_declaring(width, height), "bomb.png")
    assert time.monotonic() - start < 1
    # In kilobytes (bytes on a Mac); the smallest of these pictures would take 150 MB as grey.
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 50_000


def test_a_gif_that_declares_too_much_is_refused() -> None:
    data = bytearray(encoded(quarters(), "GIF"))
    data[6:10] = struct.pack("<HH", 65_535, 65_535)
    with pytest.raises(DataError, match="pixels"):
        decode(bytes(data), "bomb.gif")
