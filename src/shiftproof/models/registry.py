"""The registry of models: ours and timm's, by name."""

from __future__ import annotations

from typing import TYPE_CHECKING

from shiftproof.core.registry import Registry

if TYPE_CHECKING:
    from shiftproof.models.base import Model


class ModelRegistry(Registry["type[Model]"]):
    """Our models by name; any other name is looked up in timm, which is imported only then.

    Iteration covers only our models: timm has a thousand more.
    """

    def get(self, name: str) -> type[Model]:
        """Return our model of this name, else timm's; raise with the nearest names if none."""
        if name in self:
            return super().get(name)
        from shiftproof.models.timm import timm_model

        return timm_model(self.full_name(name))

    def full_name(self, name: str) -> str:
        """Return the permanent name of a model: for timm, the name with its tag."""
        if name in self:
            return name
        from shiftproof.models.timm import full_name

        return full_name(name, ours=self)


MODELS = ModelRegistry("backbone", package="shiftproof.models")
