"""Conversations become samples: rendered once, tokenized once, told apart by aligned spans."""
