"""Build the rows of a comparison from algorithm names and fixed hyper-parameters."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from shiftproof.core.errors import InvalidValue
from shiftproof.core.space import Scalar, specs
from shiftproof.learners.algorithms import ALGORITHMS
from shiftproof.models import MODELS
from shiftproof.sweeps.jobs import Variant


def algorithm_names(asked: str | Sequence[str]) -> list[str]:
    """Return the algorithms to compare; ``all`` means those that train on minibatches."""
    if asked == "all":
        return [name for name in ALGORITHMS if not ALGORITHMS.get(name).full_batches]
    names = [asked] if isinstance(asked, str) else list(asked)
    for name in names:
        ALGORITHMS.get(name)
    if len(set(names)) < len(names):
        raise InvalidValue(f"`algorithms` has duplicates: {','.join(names)}")
    return names


def variants_of(algorithms: Sequence[str], fixed: Mapping[str, object]) -> list[Variant]:
    """Return a row for each algorithm, named after the fixed hyper-parameters.

    Equal values give equal names: 1e1 and 10 are both 10.0.  The plan, which knows the networks,
    rejects unknown names.
    """
    if not fixed:
        return [Variant.plain(name) for name in algorithms]
    of_networks = {name: spec for _, model in MODELS.items() for name, spec in specs(model).items()}
    variants = []
    for algorithm in algorithms:
        known = of_networks | specs(ALGORITHMS.get(algorithm).Hparams)
        values: dict[str, Scalar] = {
            name: known[name].parse(value) if name in known else str(value)
            for name, value in sorted(fixed.items())
        }
        said = ",".join(f"{name}={value}" for name, value in values.items())
        variants.append(Variant(f"{algorithm}[{said}]", algorithm, values))
    return variants
