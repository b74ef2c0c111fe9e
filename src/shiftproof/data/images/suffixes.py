"""The suffixes of image files."""

# A file in an image folder with one of these suffixes is an image.
SUFFIXES = (
    *(".jpg", ".jpeg", ".jpe", ".jfif", ".png", ".webp", ".avif", ".bmp", ".gif"),
    *(".tif", ".tiff", ".ppm", ".pgm", ".pnm"),
)
