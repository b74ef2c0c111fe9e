"""Shiftproof as a scikit-learn estimator."""

from shiftproof.estimator.classifier import ShiftproofClassifier

__all__ = ["ShiftproofClassifier"]
