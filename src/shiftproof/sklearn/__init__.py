"""Shiftproof as a scikit-learn estimator."""

from shiftproof.sklearn.classifier import ShiftproofClassifier

__all__ = ["ShiftproofClassifier"]
