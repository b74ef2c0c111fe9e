"""The penalties of methods other than IDM, as pure functions of tensors."""
