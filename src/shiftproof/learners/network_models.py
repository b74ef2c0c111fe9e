"""Networks as scikit-learn models, to be stored, loaded and exported like any other."""

from __future__ import annotations

from typing import Any

import numpy as np

from shiftproof.learners.candidate import side_by_side
from shiftproof.learners.networks_together import Layers


def network_classifier(layers: Layers, classes: int) -> Any:
    """Return a `VotingClassifier` that averages the probabilities of the networks."""
    from sklearn.ensemble import VotingClassifier  # type: ignore[import-untyped]
    from sklearn.neural_network import MLPClassifier  # type: ignore[import-untyped]
    from sklearn.preprocessing import LabelBinarizer, LabelEncoder  # type: ignore[import-untyped]

    labels = np.arange(classes)
    width = layers[0][0].shape[2]
    members = []
    for place in range(len(layers[0][0])):
        weights = [weight[place].double().numpy() for weight, _ in layers]
        biases = [bias[place, 0].double().numpy() for _, bias in layers]
        if classes == 2:  # scikit-learn uses one logit, that of the second class
            weights[-1] = weights[-1][:, 1:] - weights[-1][:, :1]
            biases[-1] = biases[-1][1:] - biases[-1][:1]
        member = MLPClassifier((width,) * (len(layers) - 1))
        member.coefs_, member.intercepts_ = weights, biases
        member.n_layers_, member.n_features_in_ = len(layers) + 1, len(weights[0])
        member.n_outputs_ = weights[-1].shape[1]
        member.out_activation_ = "logistic" if classes == 2 else "softmax"
        member.classes_ = labels
        member._label_binarizer = LabelBinarizer().fit(labels)
        members.append(member)
    names = [f"seed {place}" for place in range(len(members))]
    voting = VotingClassifier(list(zip(names, members, strict=True)), voting="soft")
    voting.estimators_, voting.classes_ = members, labels
    voting.le_ = LabelEncoder().fit(labels)
    return voting


def network_regressor(layers: Layers) -> Any:
    """Return a regressor that averages the networks, with one `VotingRegressor` per target."""
    *hidden, (weight, bias) = layers
    targets = range(weight.shape[2])
    made = [
        _voting_on_numbers([*hidden, (weight[:, :, k : k + 1], bias[:, :, k : k + 1])])
        for k in targets
    ]
    return made[0] if len(made) == 1 else side_by_side(made)


def _voting_on_numbers(layers: Layers) -> Any:
    """Return a `VotingRegressor` of networks with one target."""
    from sklearn.ensemble import VotingRegressor
    from sklearn.neural_network import MLPRegressor

    members = []
    for place in range(len(layers[0][0])):
        member = MLPRegressor((layers[0][0].shape[2],) * (len(layers) - 1))
        member.coefs_ = [weight[place].double().numpy() for weight, _ in layers]
        member.intercepts_ = [bias[place, 0].double().numpy() for _, bias in layers]
        member.n_layers_, member.n_features_in_ = len(layers) + 1, len(member.coefs_[0])
        member.n_outputs_, member.out_activation_ = 1, "identity"
        members.append(member)
    names = [f"seed {place}" for place in range(len(members))]
    voting = VotingRegressor(list(zip(names, members, strict=True)))
    voting.estimators_ = members
    return voting
