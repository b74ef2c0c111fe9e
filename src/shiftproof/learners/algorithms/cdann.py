"""CDANN: DANN with a class-conditional discriminator."""

from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor, nn

from shiftproof.learners.algorithms import ALGORITHMS
from shiftproof.learners.algorithms.dann import DANN


def class_balancing_weights(labels: Tensor, num_classes: int) -> Tensor:
    """Return a weight per sample that gives every class the same total: 1 / (c n_y).

    n_y is the number of samples of class y, and c the largest label in the batch plus 1, as
    published; in a batch with all c classes the weights sum to 1.  labels [...] → [...], in single
    precision as published.

    >>> import torch
    >>> class_balancing_weights(torch.tensor([0, 1, 1]), num_classes=2)
    tensor([0.5000, 0.2500, 0.2500])
    """
    counts = F.one_hot(labels.flatten(), num_classes).sum(dim=0)
    return 1 / (counts[labels] * (labels.max() + 1)).float()


@ALGORITHMS.register("cdann")
class CDANN(DANN):
    """Fool a discriminator that is given the class: DANN's L_E − λ L_D, with L_D on z = φ(x) + e_y.

    e_y [k] is an embedding of the label, trained with the discriminator, and L_D gives every class
    the same weight: Σⱼ ℓ(δ(zⱼ), dⱼ) / (c n_yⱼ) for n_y samples of class y among c classes.  The
    representations then match conditionally on the label; DANN does not require that.

    Paper: Li et al. (2018), *Deep Domain Generalization via Conditional Invariant Adversarial
    Networks*.
    """

    paper = "Li et al. (2018)"
    classes_only = "its discriminator is given the class"

    def setup(self) -> None:
        """Add the embeddings of the classes."""
        super().setup()
        size = (self.task.num_classes, self.discriminator.input.in_features)
        self.class_embeddings = nn.Embedding(*size, device="meta").to_empty(device="cpu")
        nn.init.normal_(self.class_embeddings.weight, generator=self.generator)
        self.optimizers["discriminator"].add_param_group({"params": [self.class_embeddings.weight]})

    def discriminator_inputs(self, representations: Tensor, labels: Tensor) -> Tensor:
        """Return the inputs of δ [domains, batch, k]: representation plus class embedding."""
        embedded: Tensor = self.class_embeddings(labels)
        return representations + embedded

    def mean_domain_risk(self, risk: Tensor, labels: Tensor) -> Tensor:
        """Return the mean of ℓ(δ(z), d) [domains, batch], with all classes weighted equally."""
        return (class_balancing_weights(labels, self.task.num_classes) * risk).sum()
