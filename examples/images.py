"""Images: a folder DIR/domain/class/*.jpg, a frozen backbone, and predictions for a new camera.

python examples/images.py
"""

from pathlib import Path

import numpy as np
from PIL import Image

import shiftproof

# Small pictures of three cameras, by day and by night.
rng = np.random.default_rng(0)
for camera, light in (("hall", 0), ("street", 15), ("yard", 30), ("new", 20)):
    for label, level in (("day", 190), ("night", 40)):
        folder = Path("cameras" if camera != "new" else "new-camera", camera, label)
        folder.mkdir(parents=True, exist_ok=True)
        for number in range(10):
            pixels = rng.normal(level + light, 25, size=(48, 64, 3)).clip(0, 255)
            Image.fromarray(pixels.astype(np.uint8)).save(folder / f"{number}.jpg")

cameras = shiftproof.load("cameras", image_size=32)

# The backbone processes every image once; training on its features takes seconds.  With
# `weights="pretrained"`, the default, its published weights are downloaded.
frozen = {"freeze": True, "backbone": "resnet18", "weights": "random"}
each = shiftproof.train_each(cameras, "erm", steps=60, out="runs/images/each", **frozen)
print(each.to_frame()[["accuracy", "commonest_class"]])

run = shiftproof.train(cameras, "erm", steps=60, out="runs/images/final", **frozen)
predictions = shiftproof.predict(run.model, "new-camera").to_frame()
print(predictions[["path", "predicted"]][::5])
right = [Path(path).parent.name for path in predictions["path"]] == predictions["predicted"]
assert right.mean() > 0.9
