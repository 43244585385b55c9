"""The `nbgpu` service beside the hub: loops in the background, and what it tells over HTTP."""
