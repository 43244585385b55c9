"""The live GPU panel of the notebook (its place: the widget follows)."""
