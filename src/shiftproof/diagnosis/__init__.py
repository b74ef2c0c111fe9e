"""What shifts between domains, how much, and what the paper's theory makes of it."""
