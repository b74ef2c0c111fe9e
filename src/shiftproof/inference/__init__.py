"""What a trained model does: predict, evaluate, warn about unusual inputs, export."""
