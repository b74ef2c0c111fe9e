"""Decode the bytes of an image file; the content decides the format, not the file name."""

from __future__ import annotations

import functools
import io
from pathlib import Path

import numpy as np
from PIL import Image, ImageOps

from shiftproof.core.errors import DataError
from shiftproof.core.text import reason_of

# Pictures with more pixels are rejected, so as not to fill the memory (Pillow warns at 89.5M).
MOST_PIXELS = 89_000_000
# The formats that Pillow may decode.  It supports others, but EPS would run a program.
FORMATS = ("JPEG", "PNG", "WEBP", "AVIF", "BMP", "GIF", "TIFF", "PPM")


def decode(data: bytes, where: Path | str) -> Image.Image:
    """Return the picture in `data` as RGB, turned upright; an animation gives its first frame.

    16-bit grey is scaled to 8 bits.  `where` names the file in errors.
    """
    try:
        with Image.open(io.BytesIO(data), formats=known_formats()) as image:
            if image.width * image.height > MOST_PIXELS:
                raise DataError(f"{where}: {image.width} × {image.height} pixels are too many")
            image.load()
            upright = ImageOps.exif_transpose(image)
        return _to_rgb(upright, where)
    except DataError:
        raise
    except Exception as error:  # Pillow's plugins raise any kind of error on damaged bytes
        reason = reason_of(error, 120)
        if reason.startswith("cannot identify image file"):
            reason = "unknown format"
        raise DataError(f"{where}: not a readable image ({reason})") from error


@functools.cache
def known_formats() -> tuple[str, ...]:
    """Return the formats that this build of Pillow can decode."""
    Image.init()
    return tuple(name for name in FORMATS if name in Image.OPEN)


def _to_rgb(image: Image.Image, where: Path | str) -> Image.Image:
    if image.mode.startswith("I"):
        grey = np.asarray(image).astype(np.int64)
        if grey.min() < 0 or grey.max() > 65_535:
            raise DataError(f"{where}: grey levels outside 0–65535; convert it to 8 or 16 bits")
        image = Image.fromarray((grey // 257).astype(np.uint8))
    elif image.mode == "F":
        raise DataError(f"{where}: grey levels in floating point; convert it to 8 or 16 bits")
    elif "transparency" in image.info:
        image = image.convert("RGBA")
    return image.convert("RGB")
