"""How results look: values in, text or picture out."""
