"""The pytest hooks: a table of contents."""
