"""Image files: decoding, transforms, folders, manifests, and checks of image sets."""
