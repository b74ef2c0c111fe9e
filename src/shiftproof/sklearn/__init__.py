"""Shiftproof as scikit-learn estimators."""

from shiftproof.sklearn.classifier import ShiftproofClassifier
from shiftproof.sklearn.regressor import ShiftproofRegressor

__all__ = ["ShiftproofClassifier", "ShiftproofRegressor"]
