"""All trainable models."""
