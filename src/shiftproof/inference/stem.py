"""The stem of a model trained on frozen features: the network from an image to these features."""

from __future__ import annotations

import math

import torch
from torch import nn

from shiftproof.core.standardize import NONE
from shiftproof.data.tables.preprocessing import FARTHEST, FittedColumns, Scaled
from shiftproof.learners.base import ALGORITHMS
from shiftproof.models.side_by_side import StandardUnits
from shiftproof.training.config import RunConfig
from shiftproof.training.features import untrained_stem


def in_standard_units(networks: nn.Module, fitted: FittedColumns) -> nn.Module:
    """Return networks side by side, with features standardised as fitted in a run."""
    scaled = [part for part in fitted.parts if isinstance(part, Scaled)]
    units = StandardUnits(len(scaled), FARTHEST)
    units.columns = torch.tensor([part.column for part in scaled])
    units.mean = torch.tensor([part.mean for part in scaled])
    units.std = torch.tensor([part.std for part in scaled])
    return nn.Sequential(networks, units)


def stem_of(
    config: RunConfig, image_shape: tuple[int, ...], features_shape: tuple[int, ...]
) -> nn.Module:
    """Return the stem of a run's model, without its weights."""
    networks = untrained_stem(config.frozen, image_shape)
    several = "," in config.frozen["backbone"]
    if not several or config.standardize != NONE or ALGORITHMS.get(config.algorithm).exact:
        return networks
    return nn.Sequential(networks, StandardUnits(math.prod(features_shape), FARTHEST))
