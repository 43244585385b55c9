"""Image catalogue, builder and compatibility check."""
