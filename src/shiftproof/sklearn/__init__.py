"""Shiftproof as scikit-learn estimators."""

from shiftproof.sklearn.estimators import ShiftproofClassifier, ShiftproofRegressor

__all__ = ["ShiftproofClassifier", "ShiftproofRegressor"]
