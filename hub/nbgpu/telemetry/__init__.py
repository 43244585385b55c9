"""What watches the running site: the reconciler (sampler and health follow)."""
