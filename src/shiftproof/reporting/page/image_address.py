"""Images as `data:` URLs, embedded in the page."""

from __future__ import annotations

import base64
import io

import numpy as np

SIDE = 112


def image_address(image: np.ndarray) -> str:
    """Return the `data:` URL of an image [height, width, channels] in [0, 1].

    A small image is enlarged without smoothing and stored as PNG; others become JPEG.
    """
    from PIL import Image

    pixels = (np.clip(image, 0, 1) * 255).astype(np.uint8)
    drawn = Image.fromarray(pixels[..., 0] if pixels.shape[-1] == 1 else pixels)
    small = min(drawn.size) < SIDE // 2
    out = io.BytesIO()
    if small:
        times = SIDE // max(drawn.size)
        size = (times * drawn.width, times * drawn.height)
        drawn.resize(size, Image.Resampling.NEAREST).save(out, format="PNG")
    else:
        drawn.resize((SIDE, SIDE)).convert("RGB").save(out, format="JPEG", quality=80)
    kind = "png" if small else "jpeg"
    return f"data:image/{kind};base64,{base64.b64encode(out.getvalue()).decode()}"
