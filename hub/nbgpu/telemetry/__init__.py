"""What watches the running site: the reconciler, and which devices are fit to be leased."""
