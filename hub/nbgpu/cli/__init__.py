"""The `nbgpu` command."""
