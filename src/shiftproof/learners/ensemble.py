"""A fitted ensemble: members, their weights and the temperatures that calibrate them.

    p(y|x) ∝ q(y|x)^(1/T),   q(y|x) = Σ_j w_j · p_j(y|x)^(1/T_j) / Σ_k p_j(k|x)^(1/T_j)

Each member has its own temperature T_j.  The mean of calibrated probabilities is underconfident
(Ranjan and Gneiting, 2010), so the mean has a temperature T too.

For regression, the prediction is the weighted mean Σ_j w_j f_j(x), without temperatures.

Members are scikit-learn classifiers or regressors on raw rows.  A single model is an ensemble with
one member.  skops stores it as a dictionary of scikit-learn objects and numbers: loading it runs no
code, and only the types in `TRUSTED` are allowed.
"""

from __future__ import annotations

import io
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any

import numpy as np

from shiftproof.core.cores import one_thread_each
from shiftproof.core.errors import CheckpointError, ShiftproofError
from shiftproof.core.files import ALWAYS_ALLOWED, MOST_TIMES
from shiftproof.core.text import reason_of
from shiftproof.learners.criterion import tempered
from shiftproof.learners.packed_trees import pack, unpack

# Types in scikit-learn models that skops does not trust by default.  Rebuilding them runs no code;
# `functools.partial` is checked together with the function that it calls.
TRUSTED = (
    "functools.partial",
    "numpy.dtype",
    "shiftproof.learners.estimator.EstimatorModel",
    "shiftproof.learners.estimator.NumberEstimatorModel",
    "shiftproof.learners.ranks.SmoothRanks",
    "sklearn.calibration._CalibratedClassifier",
    "sklearn.calibration._SigmoidCalibration",
    "sklearn.ensemble._hist_gradient_boosting.predictor.TreePredictor",
    "sklearn.metrics._dist_metrics.EuclideanDistance64",
    "sklearn.model_selection._split.KFold",
    "sklearn.model_selection._split.StratifiedKFold",
    "sklearn.neighbors._kd_tree.KDTree",
    "sklearn.neural_network._stochastic_optimizers.AdamOptimizer",
    "sklearn.neural_network._stochastic_optimizers.SGDOptimizer",
    "sklearn.tree._tree.Tree",
    "sklearn.utils._bunch.Bunch",
    "sklearn.utils.validation.check_array",
)


def untrusted_types(value: Any) -> list[str]:
    """Return the types in an object that `Ensemble.from_bytes` would reject."""
    import skops.io  # type: ignore[import-untyped]

    found = skops.io.get_untrusted_types(data=skops.io.dumps(value))
    return sorted(set(found) - set(TRUSTED))


def dumped(value: Any) -> bytes:
    """Serialise scikit-learn objects and numbers to bytes."""
    import skops.io

    stored: bytes = skops.io.dumps(value, compression=zipfile.ZIP_DEFLATED, compresslevel=1)
    return stored


def loaded(data: bytes) -> Any:
    """Rebuild what `dumped` stored; reject untrusted types."""
    import skops.io
    from skops.io.exceptions import (  # type: ignore[import-untyped]
        UnsupportedTypeException,
        UntrustedTypesFoundException,
    )

    try:
        _require_size(data)
        return skops.io.loads(data, trusted=list(TRUSTED))
    except (UntrustedTypesFoundException, UnsupportedTypeException) as error:
        raise CheckpointError(
            f"the model holds types that are not trusted: {reason_of(error)}"
        ) from error
    except CheckpointError:
        raise
    except Exception as error:  # rebuilding damaged objects raises errors of any kind
        raise unreadable(error) from error


def _require_size(data: bytes) -> None:
    """Reject an archive that unpacks to far more than its own size (a zip bomb)."""
    with zipfile.ZipFile(io.BytesIO(data)) as pack:
        size = sum(member.file_size for member in pack.infolist())
    if size > max(ALWAYS_ALLOWED, MOST_TIMES * len(data)):
        raise CheckpointError(
            f"the model unpacks to {size / 2**20:,.0f} MiB, {size / len(data):,.0f} times its size:"
            " it may be a zip bomb"
        )


def unreadable(error: Exception) -> CheckpointError:
    """Return the error for a damaged model."""
    reason = reason_of(error)
    return CheckpointError(f"the model cannot be read ({reason}); train again")


@dataclass(frozen=True)
class Member:
    """One model of an ensemble.

    ``variant`` is the selected setting.  ``risk`` is the mean loss over held-out training domains,
    after calibration, and ``accuracy`` the mean accuracy there, or R² for regression (``r2`` in
    descriptions); both are None if the model was not evaluated.  ``seconds``, the time of
    evaluating and fitting, is not stored, so that equal runs give equal files.
    """

    name: str
    variant: str
    weight: float
    temperature: float
    risk: float | None
    accuracy: float | None
    model: Any
    seconds: float = field(default=0.0, compare=False)


@dataclass(frozen=True)
class Ensemble:
    """Members whose weights sum to 1, for ``classes`` classes, or for regression if that is 0.

    ``left_out`` maps candidates that were not tried to the reason.  ``held_out`` [n, k] are
    predictions for the training rows, from models not trained on the row's domain; they are not
    stored with the ensemble.
    """

    members: tuple[Member, ...]
    classes: int
    temperature: float = 1.0
    left_out: Mapping[str, str] = field(default_factory=dict)
    held_out: np.ndarray | None = field(default=None, compare=False, repr=False)

    def predict_proba(self, x: np.ndarray) -> np.ndarray:
        """Return class probabilities [n, classes] for rows [n, d]."""
        total = self._weighted(x)
        return tempered(total, self.temperature) if self.temperature != 1 else total

    def predict(self, x: np.ndarray) -> np.ndarray:
        """Return predicted numbers [n, 1] for raw rows, in standard units."""
        return self._weighted(x)

    def _weighted(self, x: np.ndarray) -> np.ndarray:
        """Return the weighted mean of the members' predictions."""
        total = np.zeros((len(x), self.classes or 1))
        with one_thread_each():
            for member in self.members:
                try:
                    if self.classes == 0:
                        numbers = np.asarray(member.model.predict(x))
                        total = total + member.weight * numbers.reshape(len(x), -1)
                        continue
                    predicted = member.model.predict_proba(x)
                    known = np.asarray(member.model.classes_, dtype=int)
                    total[:, known] += member.weight * tempered(predicted, member.temperature)
                except (ShiftproofError, MemoryError):
                    raise
                except Exception as error:  # a damaged model may fail in any way
                    raise unreadable(error) from error
        return total

    def described(self) -> list[dict[str, Any]]:
        """Return each member's description and weight as JSON values, without model and time."""
        names = [each.name for each in fields(Member) if each.name not in ("model", "seconds")]
        shown = {} if self.classes else {"accuracy": "r2"}
        return [{shown.get(n, n): getattr(member, n) for n in names} for member in self.members]

    def timings(self) -> dict[str, float]:
        """Return each member's time in seconds; empty for a loaded model."""
        return {member.name: round(member.seconds, 3) for member in self.members if member.seconds}

    def to_bytes(self) -> bytes:
        """Serialise the ensemble."""
        return dumped(
            {
                "classes": self.classes,
                "temperature": self.temperature,
                "members": [
                    {**about, "model": pack(member.model)}
                    for about, member in zip(self.described(), self.members, strict=True)
                ],
            }
        )

    @classmethod
    def from_bytes(cls, data: bytes) -> Ensemble:
        """Rebuild an ensemble from `to_bytes`; reject untrusted types."""
        value = loaded(data)
        try:
            members = []
            for stored in value["members"]:
                own = {"accuracy" if name == "r2" else name: v for name, v in stored.items()}
                own.pop("spread", None)  # of earlier versions
                members.append(Member(**{**own, "model": unpack(own["model"])}))
            return cls(tuple(members), int(value["classes"]), float(value["temperature"]))
        except (AttributeError, LookupError, TypeError, ValueError) as error:
            raise unreadable(error) from error
