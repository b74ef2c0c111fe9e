"""`load_model`: load a trained model from its run or its file."""

from __future__ import annotations

import os
from pathlib import Path

from shiftproof.inference.model import TrainedModel
from shiftproof.inference.model_file import run_in


def load_model(
    path: str | os.PathLike[str], device: str = "auto", *, trust: bool = False
) -> TrainedModel:
    """Load the model from the folder of a finished run or study, or from a model file.

    Loading executes no code from the file, unless it holds an estimator that you trust.

    Args:
        path: the folder of a run or of a study, or a `.safetensors` file that `shiftproof` wrote.
        device: auto, cpu, cuda or mps.
        trust: also load a scikit-learn estimator of the model's author, which may run code.
    """
    return TrainedModel.load(run_in(Path(path).expanduser()), device, trust=trust)


def as_model(
    model: TrainedModel | str | os.PathLike[str], device: str = "auto", *, trust: bool = False
) -> TrainedModel:
    """Return a model unchanged, or load it from its path."""
    return model if isinstance(model, TrainedModel) else load_model(model, device, trust=trust)
