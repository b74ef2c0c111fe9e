"""Which files are images, by their names."""

# A file of an image folder with one of these suffixes is an image.
SUFFIXES = (
    *(".jpg", ".jpeg", ".jpe", ".jfif", ".png", ".webp", ".avif", ".bmp", ".gif"),
    *(".tif", ".tiff", ".ppm", ".pgm", ".pnm"),
)
