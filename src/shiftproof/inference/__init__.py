"""Use of a trained model: prediction, evaluation, warnings about unusual inputs, export."""
