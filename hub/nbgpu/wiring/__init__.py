"""The composition root: builds the adapters and hands them out."""
